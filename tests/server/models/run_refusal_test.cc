// What cannot be asked of a model, with which code and which words.
#include "absl/strings/str_cat.h"
#include "core/tensor/seeded.h"
#include "tests/server/models/golden_server.h"
#include "tests/server/wire_options.h"
#include "tests/support/fill.h"
#include "tests/support/matchers.h"
#include "tests/support/model_folder.h"

namespace attention {
namespace {

using grpc::StatusCode;

class RunRefusalTest : public GoldenServerTest {
 protected:
  void ExpectInvalid(const v1::AttendRequest& request, const std::string& text) {
    v1::AttendResponse response;
    EXPECT_THAT(client_.Attend(request, &response), IsRefusal(StatusCode::INVALID_ARGUMENT, text));
  }
  static v1::AttendRequest Tokens(const std::string& model) {
    return TokenRequest(model, {1, 2, 3}, 3);
  }
};

TEST_F(RunRefusalTest, LayersThatThereAreNot) {
  v1::AttendRequest request = Tokens("gpt2");
  request.set_layer(2);
  ExpectInvalid(request, "layer: expected 0 to 1 of the 2 layers of model \"gpt2\", found 2");
  request.set_layer(-1);
  ExpectInvalid(request, "layer: expected 0 to 1 of the 2 layers of model \"gpt2\", found -1");
  request.set_model("demo");
  request.set_layer(1);
  ExpectInvalid(request, "layer: expected 0 to 0 of the 1 layer of model \"demo\", found 1");
  request.set_layer(0);
  Attend(request);
}

TEST_F(RunRefusalTest, HiddenStatesBeyondWhatDynamicRotationsStandFor) {
  const std::string model = "llama-rope-dynamic";
  Attend(RowsRequest(model, SeededTensor(1, Dtype::kF32, {1, 64, 32})));
  v1::AttendRequest request = RowsRequest(model, SeededTensor(1, Dtype::kF32, {1, 65, 32}));
  const std::string text = absl::StrCat("model ", model,
                                        ": expected at most 64 positions, for which its rotations "
                                        "are valid, found a sequence that ends at 65");
  ExpectInvalid(request, text);
  request.set_layer(0);
  ExpectInvalid(request, text);
}

TEST_F(RunRefusalTest, OptionsOfAWholeStack) {
  const std::pair<const char*, const char*> cases[] = {{"causal: false", "causal"},
                                                       {"window: 3", "window"},
                                                       {"return_weights: true", "return_weights"},
                                                       {"sequences {}", "sequences"}};
  for (const auto& [options, field] : cases) {
    v1::AttendRequest request = Tokens("gpt2");
    *request.mutable_options() = Options(options);
    ExpectInvalid(request, absl::StrCat("options.", field,
                                        ": expected none without layer, since the whole stack "
                                        "of model \"gpt2\" takes no options, found one"));
  }
}

TEST_F(RunRefusalTest, OutputsThatTheModelDoesNotHave) {
  v1::AttendRequest request = Tokens("bert");
  request.set_model_output(v1::LAST_LOGITS);
  ExpectInvalid(request,
                "model_output: expected LAST_HIDDEN_STATES, MEAN_POOLED or CLS_POOLED of model "
                "\"bert\", which has no logits, found LAST_LOGITS");
  request.set_model_output(static_cast<v1::ModelOutput>(9));
  ExpectInvalid(request,
                "model_output: expected LAST_HIDDEN_STATES (0), MEAN_POOLED (1), CLS_POOLED (2), "
                "LOGITS (3) or LAST_LOGITS (4), found 9");
  request.set_model_output(v1::MEAN_POOLED);
  request.set_layer(0);
  ExpectInvalid(request, "model_output: expected LAST_HIDDEN_STATES with layer, found MEAN_POOLED");
  request.clear_layer();
  request.set_model("demo");
  ExpectInvalid(request,
                "model_output: expected LAST_HIDDEN_STATES of model \"demo\", which is one "
                "attention layer, found MEAN_POOLED");
}

TEST_F(RunRefusalTest, WeightsThatTheModelDoesNotHave) {
  v1::AttendRequest request = Tokens("gpt2");
  v1::WeightsChoice& choice = *request.mutable_weights_choice();
  ExpectInvalid(request, "weights_choice.layers: expected at least one, found none");
  choice.add_layers(0);
  choice.add_layers(2);
  ExpectInvalid(request,
                "weights_choice.layers[1]: expected ascending numbers of 0 to 1, found 2 after 0");
  choice.set_layers(1, 0);
  ExpectInvalid(request,
                "weights_choice.layers[1]: expected ascending numbers of 0 to 1, found 0 after 0");
  choice.set_layers(1, 1);
  choice.add_heads(3);
  ExpectInvalid(request, "weights_choice.heads[0]: expected ascending numbers of 0 to 2, found 3");
  request.set_layer(0);
  ExpectInvalid(request, "weights_choice: expected none with layer, found one");
}

TEST_F(RunRefusalTest, WeightsOfADecoderThatDoesNotRun) {
  v1::AttendRequest request;
  request.set_model("torch_transformer");
  ToWireTensor(SeededTensor(1, Dtype::kF32, {2, 3, 24}),
               request.mutable_hidden_states()->mutable_memory());
  request.mutable_weights_choice()->add_layers(2);
  ExpectInvalid(request, "weights_choice.layers[0]: expected ascending numbers of 0 to 1, found 2");
}

TEST_F(RunRefusalTest, MemoryWhereNoneBelongsAndNoneWhereItDoes) {
  const Tensor rows = SeededTensor(1, Dtype::kF32, {2, 3, 24});
  v1::AttendRequest request = RowsRequest("torch_transformer", rows);
  ExpectInvalid(request,
                "hidden_states.memory: expected rows of 24 for model \"torch_transformer\", found "
                "none");
  request.set_layer(3);
  ExpectInvalid(request,
                "hidden_states.memory: expected rows of 24 for layer 3 of model "
                "\"torch_transformer\", found none");
  request.set_layer(0);
  ToWireTensor(rows, request.mutable_hidden_states()->mutable_memory());
  ExpectInvalid(request,
                "hidden_states.memory: expected none for layer 0 of model \"torch_transformer\", "
                "found one");
  v1::AttendRequest gpt2 = RowsRequest("gpt2", SeededTensor(1, Dtype::kF32, {2, 3, 36}));
  ToWireTensor(rows, gpt2.mutable_hidden_states()->mutable_memory());
  ExpectInvalid(gpt2, "hidden_states.memory: expected none for model \"gpt2\", found one");

  request.clear_layer();
  request.mutable_hidden_states()->clear_tensor();
  request.mutable_hidden_states()->add_lengths(3);
  ExpectInvalid(request, "hidden_states.lengths: expected none without tensor, found 1 values");
}

TEST_F(RunRefusalTest, MemoryValuesThatDoNotFit) {
  const Tensor rows = SeededTensor(1, Dtype::kF32, {2, 3, 24});
  v1::AttendRequest request = RowsRequest("torch_mha-kdim-vdim", rows);
  v1::HiddenStates& input = *request.mutable_hidden_states();
  ToWireTensor(SeededTensor(2, Dtype::kF32, {2, 5, 18}), input.mutable_memory());
  ExpectInvalid(request,
                "hidden_states.memory_values: expected rows of 30 for model "
                "\"torch_mha-kdim-vdim\", found none");
  ToWireTensor(SeededTensor(2, Dtype::kF32, {2, 4, 30}), input.mutable_memory_values());
  ExpectInvalid(request,
                "hidden_states.memory_values: expected FP32 [2, 5, 30] beside memory, found FP32 "
                "[2, 4, 30]");
  v1::AttendRequest other = RowsRequest("torch_mha-no-bias", rows);
  ToWireTensor(rows, other.mutable_hidden_states()->mutable_memory());
  ToWireTensor(rows, other.mutable_hidden_states()->mutable_memory_values());
  ExpectInvalid(other,
                "hidden_states.memory_values: expected none for model \"torch_mha-no-bias\", found "
                "one");
}

TEST_F(RunRefusalTest, TokensThatTheModelDoesNotTake) {
  v1::AttendRequest request = Tokens("gpt2");
  v1::TokenIds& tokens = *request.mutable_token_ids();
  tokens.add_type_ids(0);
  ExpectInvalid(request,
                "token_ids.type_ids: expected no value or one for each of the 3 ids, found 1");
  request = Tokens("bert");
  Fill(request.mutable_token_ids()->mutable_type_ids(), 3, 2);
  ExpectInvalid(request,
                "token_ids.type_ids: expected 0 to 1, found 2 at position 0 in sequence 0");
  request = Tokens("torch_transformer");
  ExpectInvalid(request,
                "input: expected hidden_states for model \"torch_transformer\", which needs "
                "memory, found token_ids");
  request = v1::AttendRequest();
  request.set_model("gpt2");
  request.mutable_text()->add_texts("the cat");
  ExpectInvalid(request,
                "input: expected token_ids or hidden_states for model \"gpt2\", which has no "
                "tokenizer, found text");
}

TEST_F(RunRefusalTest, RunsOfAModelWithoutOne) {
  const Tensor query = SeededTensor(1, Dtype::kF32, {1, 2, 4, 16});
  v1::AttendRequest request = QkvRequest(query, query, query);
  request.set_layer(0);
  ExpectInvalid(request, "layer: expected none with query_key_value, found 0");
  request.clear_layer();
  request.set_model_version(1);
  ExpectInvalid(request, "model_version: expected none with query_key_value, found 1");
  request.clear_model_version();
  request.set_model_output(v1::LOGITS);
  ExpectInvalid(request,
                "model_output: expected LAST_HIDDEN_STATES with query_key_value, found LOGITS");
}

TEST(RunLimitsTest, PooledAnswersCountAsTheRowsThatTheyAreMadeOf) {
  ServerOptions options = ServerOptionsFor(kCheckpoints);
  options.max_message_bytes = 1 << 20;
  const InProcessServer server(options);
  AttendClient client(server.NewChannel());
  v1::AttendRequest request = TokenRequest("llama", std::vector<int32_t>(20000, 3), 20);
  request.set_model_output(v1::MEAN_POOLED);
  v1::AttendResponse response;
  EXPECT_THAT(client.Attend(request, &response),
              IsRefusal(StatusCode::RESOURCE_EXHAUSTED,
                        "computing 20000 tokens would take 2560000 bytes of memory; the maximum "
                        "is 1048576 (--max-message-bytes; AttendStream may send more)"));
  request.set_model_output(v1::LOGITS);
  EXPECT_THAT(client.Attend(request, &response),
              IsRefusal(StatusCode::RESOURCE_EXHAUSTED,
                        "the reply would have 3760000 bytes; the maximum is 1048576 "
                        "(--max-message-bytes; AttendStream may send more)"));
}

TEST(RunLimitsTest, ChosenHeadsCountAsAllOfTheirLayer) {
  ServerOptions options = ServerOptionsFor(kCheckpoints);
  options.max_message_bytes = 1 << 20;
  const InProcessServer server(options);
  AttendClient client(server.NewChannel());
  v1::AttendRequest request = RowsRequest("gpt2", SeededTensor(1, Dtype::kF32, {400, 36}));
  request.mutable_weights_choice()->add_layers(0);
  request.mutable_weights_choice()->add_heads(1);
  v1::AttendResponse response;
  EXPECT_THAT(client.Attend(request, &response),
              IsRefusal(StatusCode::RESOURCE_EXHAUSTED,
                        "computing 400 tokens would take 1920000 bytes of memory; the maximum is "
                        "1048576 (--max-message-bytes; AttendStream may send more)"));
}

TEST(ModelVersionTest, RequestsChooseAVersionOrGetTheHighest) {
  const FakeModelFolder folder;
  folder.Put("a/1", "1");
  folder.Put("a/3", "3");
  ServerOptions options = ServerOptionsFor(folder.path());
  options.models.load = LoadFakeModel;
  options.models.folder.versions.others = {.kind = VersionPolicy::Kind::kAll};
  const InProcessServer server(options);
  AttendClient client(server.NewChannel());
  const auto answer = [&](std::optional<int64_t> version) {
    v1::AttendRequest request = RowsRequest("a", SeededTensor(1, Dtype::kF32, {3, 32}));
    if (version.has_value()) {
      request.set_model_version(*version);
    }
    v1::AttendResponse response;
    const grpc::Status status = client.Attend(request, &response);
    return status.ok() ? response.output().data() : status.error_message();
  };
  EXPECT_EQ(answer(std::nullopt), answer(3));
  EXPECT_NE(answer(1), answer(3));
  EXPECT_EQ(answer(2), "model_version: expected one of 1, 3 of model \"a\", found 2");
}

TEST_F(RunRefusalTest, MoreTablesThanAnAnswerMayHave) {
  v1::AttendRequest request;
  request.set_model("torch_transformer");
  for (v1::Tensor* const tensor : {request.mutable_hidden_states()->mutable_tensor(),
                                   request.mutable_hidden_states()->mutable_memory()}) {
    WriteTensorHeader(Dtype::kF32, {2731, 0, 24}, *tensor);
  }
  for (int layer = 0; layer < 6; ++layer) {
    request.mutable_weights_choice()->add_layers(layer);
  }
  v1::AttendResponse response;
  EXPECT_THAT(client_.Attend(request, &response),
              IsRefusal(StatusCode::RESOURCE_EXHAUSTED,
                        "weights_choice: expected at most 16384 tables of weights and log-sum-exp "
                        "in a reply, found 16386 for 2731 sequences"));
}

}  // namespace
}  // namespace attention
