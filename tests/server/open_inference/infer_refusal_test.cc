// What is refused before any work, with which code and which words.
#include <random>

#include "core/tensor/seeded.h"
#include "tests/server/open_inference/infer_plan_fixture.h"
#include "tests/support/fill.h"
#include "tests/support/quiet_protobuf.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

using InferRefusalTest = InferPlanTest;

inference::ModelInferRequest States(const std::string& model, const Shape& shape) {
  inference::ModelInferRequest request = InferRequest(model);
  AddTensor(request, "hidden_states", SeededTensor(1, Dtype::kF32, shape));
  return request;
}

TEST_F(InferRefusalTest, ModelsAndVersionsThatAreNotServed) {
  EXPECT_THAT(Plan(Ids("t5")),
              StatusIs(absl::StatusCode::kNotFound,
                       "model_name: expected one of \"attention\", \"bert\", \"demo\", \"gpt2\", "
                       "\"torch_mha-kdim-vdim\", \"torch_transformer\", found \"t5\""));
  inference::ModelInferRequest request = Ids("gpt2");
  request.set_model_version("4");
  EXPECT_THAT(Plan(request), StatusIs(absl::StatusCode::kNotFound,
                                      "model_version: expected 3 of model \"gpt2\", found 4"));
  request.set_model_version("latest");
  ExpectInvalid(request,
                "model_version: expected a decimal number, or nothing or -1 for the highest, found "
                "\"latest\"");
  request.set_model_version("-2");
  ExpectInvalid(request,
                "model_version: expected a decimal number, or nothing or -1 for the highest, found "
                "\"-2\"");
  request.set_model_name("attention");
  request.set_model_version("2");
  EXPECT_THAT(Plan(request), StatusIs(absl::StatusCode::kNotFound,
                                      "model_version: expected 1 of model \"attention\", found 2"));
  models_->SetAbsence("soon", ModelRepository::Absence::kLoading);
  EXPECT_THAT(Plan(Ids("soon")),
              StatusIs(absl::StatusCode::kUnavailable, "model \"soon\" is being loaded"));
  models_->SetAbsence("soon", ModelRepository::Absence::kUnknown);
}

TEST_F(InferRefusalTest, BytesThatAreNoRequest) {
  EXPECT_THAT(PlanBytes("\x0a\x7f"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "expected a message inference.ModelInferRequest, found 2 bytes that "
                       "cannot be parsed"));
}

// An answer or an error, never a crash, whatever was changed on the way.
TEST_F(InferRefusalTest, BytesThatWereChanged) {
  inference::ModelInferRequest request = InferText(R"pb(
    model_name: "attention"
    id: "i"
    parameters {
      key: "causal"
      value { bool_param: true }
    }
    parameters {
      key: "scale"
      value { string_param: "0.5" }
    }
    outputs { name: "weights" }
    outputs { name: "output" })pb");
  for (const std::string name : {"query", "key", "value"}) {
    AddTensor(request, name, SeededTensor(1, Dtype::kF32, {2, 2, 1, 2}));
  }
  AddInt32(request, "kv_lengths", {2}, {1, 2});
  const std::string whole = request.SerializeAsString();
  ASSERT_THAT(PlanBytes(whole), IsOk());
  const QuietProtobuf quiet;
  std::mt19937 random(7);
  int planned = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = whole.substr(0, round % 4 == 0 ? random() % whole.size() : whole.size());
    for (uint32_t change = 0; !bytes.empty() && change < 1 + random() % 3; ++change) {
      bytes[random() % bytes.size()] =
          static_cast<char>(random() % 2 == 0 ? random() : random() % 9);
    }
    planned += PlanBytes(bytes).ok() ? 1 : 0;
  }
  EXPECT_GT(planned, 100);
  EXPECT_LT(planned, 4000);
}

TEST_F(InferRefusalTest, InputsThatTheModelDoesNotHave) {
  inference::ModelInferRequest request = Ids("gpt2");
  AddInt64(request, "token_type_ids", {2, 3}, {0, 0, 0, 0, 0, 0});
  ExpectInvalid(request,
                "inputs: expected \"input_ids\", \"hidden_states\", \"lengths\", "
                "\"attention_mask\" of model \"gpt2\", found \"token_type_ids\"");
  request = Ids("gpt2");
  AddInt64(request, "input_ids", {2, 3}, {1, 2, 3, 4, 5, 6});
  ExpectInvalid(request, "input \"input_ids\": expected one of this name, found a second");
}

TEST_F(InferRefusalTest, InputsThatAreMissing) {
  ExpectInvalid(InferRequest("gpt2"),
                "inputs: expected \"input_ids\" or \"hidden_states\" of model \"gpt2\", found "
                "neither");
  ExpectInvalid(InferRequest("attention"),
                "inputs: expected \"query\" of model \"attention\", found none");
  inference::ModelInferRequest request = States("torch_transformer", {1, 2, 24});
  ExpectInvalid(
      request, "input \"memory\": expected rows of 24 for model \"torch_transformer\", found none");
  request = InferRequest("torch_transformer");
  AddTensor(request, "memory", SeededTensor(1, Dtype::kF32, {1, 2, 24}));
  SetLayer(request, 0);
  ExpectInvalid(request, "input \"hidden_states\": expected a tensor, found none");
}

TEST_F(InferRefusalTest, InputsThatDoNotGoTogether) {
  inference::ModelInferRequest request = Ids("demo");
  AddTensor(request, "hidden_states", SeededTensor(1, Dtype::kF32, {1, 1, 512}));
  ExpectInvalid(request, "inputs: expected \"input_ids\" or \"hidden_states\", found both");
  request = Ids("demo");
  AddInt32(request, "lengths", {2}, {1, 1});
  AddInt32(request, "attention_mask", {2, 3}, {1, 1, 1, 1, 1, 1});
  ExpectInvalid(request, "inputs: expected \"lengths\" or \"attention_mask\", found both");
  request = Ids("demo");
  AddTensor(request, "memory", SeededTensor(1, Dtype::kF32, {2, 1, 512}));
  ExpectInvalid(request,
                "input \"memory\": expected none without input \"hidden_states\", found one");
  request = States("bert", {1, 1, 40});
  AddInt64(request, "token_type_ids", {1, 1}, {0});
  ExpectInvalid(request,
                "input \"token_type_ids\": expected none without input \"input_ids\", found one");
  request = States("demo", {1, 1, 512});
  AddInt32(request, "memory_lengths", {1}, {1});
  ExpectInvalid(request,
                "input \"memory_lengths\": expected none without input \"memory\", found one");
  request = InferRequest("torch_transformer");
  AddTensor(request, "memory", SeededTensor(1, Dtype::kF32, {1, 2, 24}));
  AddInt32(request, "lengths", {1}, {1});
  ExpectInvalid(request,
                "input \"lengths\": expected none without input \"input_ids\" or "
                "\"hidden_states\", found one");
}

TEST_F(InferRefusalTest, DatatypesThatAnInputDoesNotTake) {
  inference::ModelInferRequest request = Ids("demo");
  request.mutable_inputs(0)->set_datatype("FP32");
  ExpectInvalid(request, "input \"input_ids\": expected datatype INT64 or INT32, found \"FP32\"");
  request = States("demo", {1, 1, 512});
  request.mutable_inputs(0)->set_datatype("FP64");
  ExpectInvalid(request,
                "input \"hidden_states\": expected datatype FP32 or BF16 or FP16, found \"FP64\"");
}

TEST_F(InferRefusalTest, ShapesOfAnotherRankOrWidth) {
  ExpectInvalid(States("demo", {1, 1, 511}),
                "input \"hidden_states\": expected shape [-1, -1, 512], found [1, 1, 511]");
  ExpectInvalid(States("demo", {1, 512}),
                "input \"hidden_states\": expected shape [-1, -1, 512], found [1, 512]");
  inference::ModelInferRequest request = Ids("demo");
  request.mutable_inputs(0)->set_shape(0, -2);
  ExpectInvalid(request, "input \"input_ids\": expected extents of 0 or more, found shape [-2, 3]");
  request.mutable_inputs(0)->set_shape(0, int64_t{1} << 62);
  ExpectInvalid(request,
                "input \"input_ids\": expected a size below 2^63 bytes, found shape "
                "[4611686018427387904, 3]");
  request = Ids("bert");
  AddInt64(request, "token_type_ids", {3, 2}, {0, 0, 0, 0, 0, 0});
  ExpectInvalid(request,
                "input \"token_type_ids\": expected shape [2, 3] as input_ids, found [3, 2]");
  request = Ids("bert");
  AddInt64(request, "attention_mask", {1, 3}, {1, 1, 1});
  ExpectInvalid(request, "input \"attention_mask\": expected shape [2, 3], found [1, 3]");
  request = Ids("bert");
  AddInt32(request, "lengths", {3}, {1, 1, 1});
  ExpectInvalid(request, "input \"lengths\": expected shape [2], found [3]");
}

// Rule 1 to 3 of the protocol.
TEST_F(InferRefusalTest, ContentsThatAreNotOfTheSizeOrInTwoPlaces) {
  inference::ModelInferRequest request = Ids("demo");
  request.set_raw_input_contents(0, std::string(47, 'x'));
  ExpectInvalid(request,
                "input \"input_ids\": expected 48 bytes for INT64 [2, 3], found 47 in "
                "raw_input_contents[0]");
  request.add_raw_input_contents("more");
  request.set_raw_input_contents(0, std::string(48, '\0'));
  ExpectInvalid(request,
                "raw_input_contents: expected 1 entries, one for each input that is not in shared "
                "memory, found 2");
  request = Ids("demo");
  AddHeader(request, "lengths", "INT32", {2});
  ExpectInvalid(request,
                "input \"lengths\": expected an entry 1 of raw_input_contents, found 1 entries");
  request = Ids("demo");
  request.mutable_inputs(0)->mutable_contents()->add_int64_contents(1);
  ExpectInvalid(request,
                "input \"input_ids\": expected no contents beside raw_input_contents, found some");
}

TEST_F(InferRefusalTest, TypedContentsOfAnotherKindOrNumber) {
  inference::ModelInferRequest request = Ids("demo");
  request.clear_raw_input_contents();
  ExpectInvalid(request,
                "input \"input_ids\": expected 6 values in int64_contents, found none, nor "
                "raw_input_contents");
  auto& contents = *request.mutable_inputs(0)->mutable_contents();
  contents.add_int64_contents(1);
  ExpectInvalid(request, "input \"input_ids\": expected 6 values in int64_contents, found 1");
  contents.add_int_contents(1);
  ExpectInvalid(request,
                "input \"input_ids\": expected 6 values in int64_contents, found int_contents");
  request = States("demo", {1, 1, 512});
  request.clear_raw_input_contents();
  request.mutable_inputs(0)->set_datatype("BF16");
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  ExpectInvalid(request,
                "input \"hidden_states\": expected raw_input_contents for BF16, found "
                "fp32_contents");
  request = InferRequest("demo");
  auto& big = AddHeader(request, "input_ids", "INT64", {1, 131073});
  Fill(big.mutable_contents()->mutable_int64_contents(), 131073, int64_t{0});
  EXPECT_THAT(Plan(request),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "input \"input_ids\": expected at most 1048576 bytes of inputs "
                       "(--max-message-bytes), found 1048584"));
}

TEST_F(InferRefusalTest, TokensOutOfRangeBeforeTheyAreNarrowed) {
  inference::ModelInferRequest request = InferRequest("demo");
  AddInt64(request, "input_ids", {2, 2}, {1, 2, 3, (int64_t{1} << 32) + 4});
  ExpectInvalid(request, "input \"input_ids\"[1, 1]: expected 0 to 999, found 4294967300");
  request = InferRequest("bert");
  AddInt32(request, "input_ids", {1, 2}, {1, 2});
  AddInt64(request, "token_type_ids", {1, 2}, {0, -1});
  ExpectInvalid(request, "input \"token_type_ids\"[0, 1]: expected 0 to 1, found -1");
  request = InferRequest("demo");
  AddBytes(request, "input_ids", "INT32", {1, 2049}, std::string(4 * 2049, '\0'));
  EXPECT_THAT(Plan(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("input \"input_ids\": expected at most 2048")));
}

TEST_F(InferRefusalTest, LengthsAndMasksThatDoNotFit) {
  inference::ModelInferRequest request = Ids("demo");
  AddInt32(request, "lengths", {2}, {3, 4});
  ExpectInvalid(request, "input \"lengths\"[1]: expected 0 to 3, found 4");
  request = Ids("demo");
  AddInt32(request, "attention_mask", {2, 3}, {1, 1, 1, 1, 0, 1});
  ExpectInvalid(request,
                "input \"attention_mask\"[1, 2]: expected one contiguous range of ones in each "
                "row, found a second after position 0");
  request = Ids("demo");
  AddInt32(request, "attention_mask", {2, 3}, {1, 1, 2, 1, 1, 1});
  ExpectInvalid(request, "input \"attention_mask\"[0, 2]: expected 0 or 1, found 2");
  request = States("demo", {2, 3, 512});
  AddTensor(request, "memory", SeededTensor(2, Dtype::kF32, {2, 4, 512}));
  AddInt32(request, "memory_lengths", {2}, {4, 5});
  ExpectInvalid(request, "input \"memory_lengths\"[1]: expected 0 to 4, found 5");
  request = InferRequest("demo");
  AddHeader(request, "input_ids", "INT64", {int64_t{1} << 40, 0});
  EXPECT_THAT(Plan(request), StatusIs(absl::StatusCode::kResourceExhausted,
                                      "inputs: expected at most 4096 sequences in a request, found "
                                      "1099511627776"));
}

TEST_F(InferRefusalTest, TooManyIdsBeforeTheyAreCopied) {
  inference::ModelInferRequest request = InferRequest("demo");
  AddHeader(request, "input_ids", "INT32", {5, 1 << 20});
  EXPECT_THAT(Plan(request), StatusIs(absl::StatusCode::kResourceExhausted,
                                      "input \"input_ids\": expected at most 4194304 integers, "
                                      "found 5242880"));
  request = InferRequest("demo");
  AddBytes(request, "input_ids", "INT32", {2, 1 << 20}, std::string(8 << 20, '\0'));
  EXPECT_THAT(Plan(request), StatusIs(absl::StatusCode::kResourceExhausted,
                                      "inputs: expected at most 1048576 tokens in a request, found "
                                      "2097152"));
}

TEST_F(InferRefusalTest, NativeErrorsAreSaidOfTheInputs) {
  inference::ModelInferRequest request = States("demo", {2, 3, 512});
  AddTensor(request, "memory", SeededTensor(2, Dtype::kBf16, {2, 4, 512}));
  ExpectInvalid(request, "input \"memory\" dtype: expected FP32 as hidden_states, found BF16");
  request = InferRequest("attention");
  AddTensor(request, "query", SeededTensor(1, Dtype::kF32, {1, 2, 4, 16}));
  AddTensor(request, "key", SeededTensor(1, Dtype::kF32, {2, 3, 2, 16}));
  AddTensor(request, "value", SeededTensor(1, Dtype::kF32, {1, 3, 2, 8}));
  ExpectInvalid(request, "input \"key\" shape[0]: expected 1, found [2, 3, 2, 16]");
  request = Ids("torch_mha-kdim-vdim");
  EXPECT_THAT(Plan(request).status().message(), HasSubstr("found \"input_ids\""));
}

}  // namespace
}  // namespace attention
