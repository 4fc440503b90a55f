#include "client/lib/request_codec.h"

#include <grpcpp/support/slice.h>

#include <cstring>

#include "client/lib/answer_codec.h"
#include "client/lib/streamed_answer.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "proto/attention/v1/attention.pb.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Flat(const grpc::ByteBuffer& bytes) {
  grpc::Slice slice;
  EXPECT_TRUE(bytes.DumpToSingleSlice(&slice).ok());
  return std::string(reinterpret_cast<const char*>(slice.begin()), slice.size());
}

grpc::ByteBuffer ToBytes(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

/// What a server that knows nothing but the .proto sees.
v1::AttendRequest Parsed(const AttendRequest& request) {
  const absl::StatusOr<grpc::ByteBuffer> bytes = EncodeRequest(request);
  EXPECT_THAT(bytes, IsOk());
  v1::AttendRequest parsed;
  EXPECT_TRUE(parsed.ParseFromString(Flat(*bytes)));
  return parsed;
}

void SetTensor(const Tensor& tensor, v1::Tensor& wire) {
  wire.set_dtype(ToWire(tensor.dtype()));
  wire.mutable_shape()->Add(tensor.shape().begin(), tensor.shape().end());
  wire.set_data(tensor.data(), tensor.size_bytes());
}

std::string DataOf(const Tensor& tensor) {
  return std::string(static_cast<const char*>(tensor.data()), tensor.size_bytes());
}

TEST(EncodeRequestTest, WritesHiddenStatesAndMemory) {
  const Tensor rows = SeededTensor(1, Dtype::kBf16, {2, 3, 4}),
               memory = SeededTensor(2, Dtype::kBf16, {2, 5, 4});
  AttendRequest request;
  request.model = "demo";
  request.input = HiddenStatesInput{&rows, {3, 1}, &memory, {5, 4}};
  request.options.set_causal(false);
  request.options.set_scale(0.5);
  const v1::AttendRequest parsed = Parsed(request);
  EXPECT_EQ(parsed.model(), "demo");
  EXPECT_EQ(parsed.hidden_states().tensor().dtype(), v1::BF16);
  EXPECT_THAT(parsed.hidden_states().tensor().shape(), ElementsAre(2, 3, 4));
  EXPECT_EQ(parsed.hidden_states().tensor().data(), DataOf(rows));
  EXPECT_THAT(parsed.hidden_states().lengths(), ElementsAre(3, 1));
  EXPECT_EQ(parsed.hidden_states().memory().data(), DataOf(memory));
  EXPECT_THAT(parsed.hidden_states().memory_lengths(), ElementsAre(5, 4));
  EXPECT_TRUE(parsed.options().has_causal());
  EXPECT_EQ(parsed.options().scale(), 0.5);
  EXPECT_FALSE(parsed.options().return_weights());
}

TEST(EncodeRequestTest, LeavesOutWhatIsNotSaid) {
  AttendRequest request;
  request.input = TokenIdsInput{{1, 2, 3}, {}};
  const v1::AttendRequest parsed = Parsed(request);
  EXPECT_THAT(parsed.token_ids().ids(), ElementsAre(1, 2, 3));
  EXPECT_FALSE(parsed.options().has_causal());
  EXPECT_FALSE(parsed.options().has_scale());
}

TEST(EncodeRequestTest, WritesWhatOfAModelIsToRun) {
  AttendRequest request;
  request.model = "gpt2";
  request.input = TokenIdsInput{.ids = {1, 2}, .type_ids = {0, 1}};
  request.layer = 0;
  request.model_version = 3;
  EXPECT_TRUE(Parsed(request).has_layer());
  EXPECT_EQ(Parsed(request).layer(), 0);
  EXPECT_EQ(Parsed(request).model_version(), 3);
  EXPECT_THAT(Parsed(request).token_ids().type_ids(), ElementsAre(0, 1));
  EXPECT_FALSE(Parsed(request).has_weights_choice());

  request.layer.reset();
  request.model_output = v1::LAST_LOGITS;
  request.weights_choice.add_layers(1);
  EXPECT_FALSE(Parsed(request).has_layer());
  EXPECT_EQ(Parsed(request).model_output(), v1::LAST_LOGITS);
  EXPECT_THAT(Parsed(request).weights_choice().layers(), ElementsAre(1));
}

TEST(EncodeRequestTest, WritesTexts) {
  AttendRequest request;
  request.input = TextInput{{"The cat", ""}, true};
  EXPECT_THAT(Parsed(request).text().texts(), ElementsAre("The cat", ""));
  EXPECT_TRUE(Parsed(request).text().no_special_tokens());
}

TEST(EncodeRequestTest, WritesAnEncodersMemoryWithoutATensor) {
  const Tensor memory = SeededTensor(2, Dtype::kF32, {5, 4});
  AttendRequest request;
  request.input = HiddenStatesInput{nullptr, {}, &memory, {5}, &memory};
  EXPECT_FALSE(Parsed(request).hidden_states().has_tensor());
  EXPECT_EQ(Parsed(request).hidden_states().memory().data(), DataOf(memory));
  EXPECT_EQ(Parsed(request).hidden_states().memory_values().data(), DataOf(memory));
}

TEST(EncodeRequestTest, WritesQueryKeyAndValue) {
  const Tensor query = SeededTensor(1, Dtype::kF32, {1, 2, 4, 3}),
               key = SeededTensor(2, Dtype::kF32, {1, 5, 2, 3}),
               value = SeededTensor(3, Dtype::kF32, {1, 5, 2, 6});
  AttendRequest request;
  request.input = QueryKeyValueInput{&query, &key, &value, {2}, {4}, {-1}};
  const v1::AttendRequest parsed = Parsed(request);
  EXPECT_EQ(parsed.query_key_value().query().data(), DataOf(query));
  EXPECT_EQ(parsed.query_key_value().key().data(), DataOf(key));
  EXPECT_EQ(parsed.query_key_value().value().data(), DataOf(value));
  EXPECT_THAT(parsed.query_key_value().lengths(), ElementsAre(2));
  EXPECT_THAT(parsed.query_key_value().kv_lengths(), ElementsAre(4));
  EXPECT_THAT(parsed.query_key_value().query_offsets(), ElementsAre(-1));
}

TEST(EncodeRequestTest, WritesOptionsWithTheirTensors) {
  const Tensor bias = SeededTensor(1, Dtype::kF32, {1, 2, 3, 3});
  const MaskTensor mask{{1, 1, 3, 3}, {1, 0, 1, 1, 1, 0, 0, 0, 1}};
  AttendRequest request;
  request.input = TokenIdsInput{{1, 2, 3}, {}};
  request.options.set_window(2);
  request.options.add_global_tokens(1);
  request.options.mutable_rotary()->set_base(5000);
  request.options.add_sequences()->set_prefix(1);
  request.bias = &bias;
  request.mask = &mask;
  const v1::AttentionOptions parsed = Parsed(request).options();
  EXPECT_EQ(parsed.window(), 2);
  EXPECT_THAT(parsed.global_tokens(), ElementsAre(1));
  EXPECT_EQ(parsed.rotary().base(), 5000);
  EXPECT_EQ(parsed.sequences(0).prefix(), 1);
  EXPECT_EQ(parsed.bias().dtype(), v1::FP32);
  EXPECT_THAT(parsed.bias().shape(), ElementsAre(1, 2, 3, 3));
  EXPECT_EQ(parsed.bias().data(), DataOf(bias));
  EXPECT_EQ(parsed.mask().dtype(), v1::BOOL);
  EXPECT_THAT(parsed.mask().shape(), ElementsAre(1, 1, 3, 3));
  EXPECT_EQ(parsed.mask().data(), std::string(mask.values.begin(), mask.values.end()));
}

TEST(EncodeRequestTest, RefusesABiasThatIsNoMemberOfTheRequest) {
  AttendRequest request;
  request.input = TokenIdsInput{{1}, {}};
  request.options.mutable_bias()->set_data("abcd");
  EXPECT_THAT(EncodeRequest(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected no bias")));
}

TEST(EncodeRequestTest, NamesATensorThatIsMissing) {
  AttendRequest request;
  request.input = HiddenStatesInput{};
  EXPECT_THAT(EncodeRequest(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("hidden_states.tensor: expected a tensor")));
}

TEST(EncodeRequestTest, TakesWhatTheLengthPrefixOfGrpcCanSay) {
  EXPECT_THAT(CheckRequestSize(4294967295), IsOk());
  EXPECT_THAT(CheckRequestSize(4294967296),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "request: expected fewer than 4294967296 bytes, found 4294967296"));
}

TEST(DecodeAnswerTest, ReadsTensorsAndSummary) {
  const Tensor output = SeededTensor(1, Dtype::kF32, {2, 3}),
               weights = SeededTensor(2, Dtype::kF32, {1, 2, 2});
  v1::AttendResponse response;
  SetTensor(output, *response.mutable_output());
  SetTensor(weights, *response.add_weights());
  response.mutable_summary()->set_queue_ns(1000);
  response.mutable_summary()->set_compute_ns(2000);
  response.mutable_summary()->set_total_ns(4000);
  response.mutable_summary()->set_batch_requests(3);
  const grpc::ByteBuffer bytes = ToBytes(response.SerializeAsString());
  const absl::StatusOr<AttendResult> result = DecodeAnswer(bytes);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(DataOf(result->output), DataOf(output));
  EXPECT_THAT(result->output.shape(), ElementsAre(2, 3));
  ASSERT_EQ(result->weights.size(), 1u);
  EXPECT_EQ(DataOf(result->weights[0]), DataOf(weights));
  EXPECT_EQ(result->summary.queue_ns(), 1000);
  EXPECT_EQ(result->summary.total_ns(), 4000);
  EXPECT_EQ(result->summary.batch_requests(), 3);
  const absl::StatusOr<v1::Summary> summary = DecodeSummary<v1::AttendResponse>(bytes);
  ASSERT_THAT(summary, IsOk());
  EXPECT_EQ(summary->compute_ns(), 2000);
  EXPECT_THAT(
      DecodeSummary<v1::AttendResponse>(ToBytes("")),
      StatusIs(absl::StatusCode::kInternal, "malformed answer: summary: expected one, found none"));
}

TEST(DecodeAnswerTest, ReadsLogSumExpAndLargestWeights) {
  const Tensor sums = SeededTensor(1, Dtype::kF32, {2, 3}),
               weights = SeededTensor(2, Dtype::kF32, {2, 3, 1});
  const std::vector<int32_t> keys = {0, 5, 2, -1, 4, 3};
  v1::AttendResponse response;
  SetTensor(SeededTensor(3, Dtype::kF32, {3, 4}), *response.mutable_output());
  SetTensor(sums, *response.add_log_sum_exp());
  v1::TopWeights& top = *response.add_top_weights();
  SetTensor(weights, *top.mutable_weights());
  SetTensor(weights, *top.mutable_keys());
  top.mutable_keys()->set_dtype(v1::INT32);
  top.mutable_keys()->set_data(keys.data(), keys.size() * sizeof(int32_t));
  response.mutable_summary();
  const absl::StatusOr<AttendResult> result = DecodeAnswer(ToBytes(response.SerializeAsString()));
  ASSERT_THAT(result, IsOk());
  ASSERT_EQ(result->log_sum_exp.size(), 1u);
  EXPECT_EQ(DataOf(result->log_sum_exp[0]), DataOf(sums));
  ASSERT_EQ(result->top_weights.size(), 1u);
  EXPECT_EQ(DataOf(result->top_weights[0].weights), DataOf(weights));
  EXPECT_EQ(result->top_weights[0].keys, keys);

  top.mutable_keys()->set_shape(0, 3);
  top.mutable_keys()->set_shape(1, 2);
  EXPECT_THAT(DecodeAnswer(ToBytes(response.SerializeAsString())),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("top_weights.keys: expected the shape of weights, [")));
}

TEST(DecodeAnswerTest, ReadsTokensAndWeightsOfLayers) {
  const Tensor weights = SeededTensor(2, Dtype::kF32, {1, 2, 2});
  v1::AttendResponse response;
  SetTensor(SeededTensor(1, Dtype::kF32, {2, 3}), *response.mutable_output());
  v1::LayerWeights& layer = *response.add_layer_weights();
  layer.set_layer(7);
  layer.set_sequence(1);
  SetTensor(weights, *layer.mutable_weights());
  v1::TokenizedText& text = *response.add_tokens();
  text.add_ids(5);
  text.add_tokens("cat");
  response.mutable_summary();
  const absl::StatusOr<AttendResult> result = DecodeAnswer(ToBytes(response.SerializeAsString()));
  ASSERT_THAT(result, IsOk());
  ASSERT_EQ(result->layer_weights.size(), 1u);
  EXPECT_EQ(result->layer_weights[0].layer, 7);
  EXPECT_EQ(result->layer_weights[0].sequence, 1);
  EXPECT_EQ(DataOf(result->layer_weights[0].weights), DataOf(weights));
  ASSERT_EQ(result->tokens.size(), 1u);
  EXPECT_THAT(result->tokens[0].tokens(), ElementsAre("cat"));

  text.add_ids(6);
  EXPECT_THAT(DecodeAnswer(ToBytes(response.SerializeAsString())),
              StatusIs(absl::StatusCode::kInternal,
                       "malformed answer: tokens: expected one for each of 2 ids, found 1"));
}

TEST(DecodeAnswerTest, RefusesScoresThatAreNotF32) {
  const Tensor halves = SeededTensor(2, Dtype::kBf16, {2, 3, 1});
  const auto expect_refused = [](const v1::AttendResponse& response, const std::string& field) {
    EXPECT_THAT(DecodeAnswer(ToBytes(response.SerializeAsString())),
                StatusIs(absl::StatusCode::kInternal,
                         "malformed answer: " + field + ".dtype: expected FP32, found BF16"));
  };
  v1::AttendResponse plain;
  SetTensor(SeededTensor(3, Dtype::kF32, {3, 4}), *plain.mutable_output());
  v1::AttendResponse response = plain;
  SetTensor(halves, *response.add_weights());
  expect_refused(response, "weights");
  response = plain;
  SetTensor(halves, *response.add_log_sum_exp());
  expect_refused(response, "log_sum_exp");
  response = plain;
  SetTensor(halves, *response.add_top_weights()->mutable_weights());
  expect_refused(response, "top_weights.weights");
  response = plain;
  SetTensor(halves, *response.add_layer_weights()->mutable_weights());
  expect_refused(response, "layer_weights.weights");
}

TEST(DecodeStreamMessageTest, RefusesBlocksOfAnotherRank) {
  const auto expect_refused = [](const v1::AttendStreamResponse& response, const char* text) {
    EXPECT_THAT(DecodeStreamMessage(ToBytes(response.SerializeAsString())).status(),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(text)));
  };
  v1::AttendStreamResponse response;
  response.mutable_rows()->mutable_output()->set_dtype(v1::FP32);
  response.mutable_rows()->mutable_output()->set_data(std::string(4, 0));
  expect_refused(response, "rows.output.shape: expected one of rank 2 or 3, found []");
  SetTensor(SeededTensor(1, Dtype::kF32, {1, 1, 1, 1}), *response.mutable_rows()->mutable_output());
  expect_refused(response, "rows.output.shape: expected one of rank 2 or 3, found [1, 1, 1, 1]");
  const Tensor row = SeededTensor(1, Dtype::kF32, {3});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {1, 3});
  SetTensor(row, *response.mutable_weights()->mutable_weights());
  expect_refused(response, ".shape: expected one of rank 2, found [3]");
  SetTensor(rows, *response.mutable_log_sum_exp()->mutable_log_sum_exp());
  expect_refused(response, ".shape: expected one of rank 1, found [1, 3]");
  SetTensor(row, *response.mutable_layer_weights()->mutable_weights());
  expect_refused(response, ".shape: expected one of rank 2, found [3]");
}

TEST(DecodeAnswerTest, RefusesTensorsThatLieAboutTheirSize) {
  v1::AttendResponse response;
  SetTensor(SeededTensor(1, Dtype::kF32, {2, 3}), *response.mutable_output());
  response.mutable_output()->set_shape(0, 3);
  EXPECT_THAT(DecodeAnswer(ToBytes(response.SerializeAsString())),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("malformed answer: output")));
}

TEST(DecodeAnswerTest, RefusesWhatIsNoMessage) {
  EXPECT_THAT(DecodeAnswer(ToBytes("\x0a\xff")),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("malformed answer")));
  EXPECT_THAT(DecodeSummary<v1::AttendResponse>(ToBytes("\x0a\xff")),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("malformed answer")));
}

TEST(DecodeStreamMessagesTest, PutsBlocksAndSummaryTogether) {
  const Tensor input = SeededTensor(1, Dtype::kF32, {3, 2});
  AttendRequest request;
  request.input = HiddenStatesInput{&input, {}, nullptr, {}};
  v1::AttendStreamResponse first, last, summary;
  SetTensor(SeededTensor(2, Dtype::kF32, {2, 2}), *first.mutable_rows()->mutable_output());
  SetTensor(SeededTensor(3, Dtype::kF32, {1, 2}), *last.mutable_rows()->mutable_output());
  last.mutable_rows()->set_first_row(2);
  summary.mutable_summary()->set_batch_id(9);
  const absl::StatusOr<AttendResult> result = DecodeStreamMessages(
      request, {ToBytes(first.SerializeAsString()), ToBytes(last.SerializeAsString()),
                ToBytes(summary.SerializeAsString())});
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->output.shape(), ElementsAre(3, 2));
  EXPECT_EQ(DataOf(result->output), first.rows().output().data() + last.rows().output().data());
  EXPECT_EQ(result->summary.batch_id(), 9u);
}

TEST(DecodeStreamMessagesTest, PutsTextsTogether) {
  AttendRequest request;
  request.input = TextInput{{"the cat"}};
  request.weights_choice.add_layers(2);
  v1::AttendStreamResponse tokens, rows, weights, summary;
  tokens.mutable_tokens()->mutable_tokens()->add_ids(4);
  tokens.mutable_tokens()->mutable_tokens()->add_tokens("the");
  SetTensor(SeededTensor(2, Dtype::kF32, {1, 2}), *rows.mutable_rows()->mutable_output());
  weights.mutable_layer_weights()->set_layer(2);
  SetTensor(SeededTensor(3, Dtype::kF32, {1, 1}),
            *weights.mutable_layer_weights()->mutable_weights());
  summary.mutable_summary()->set_batch_id(9);
  const absl::StatusOr<AttendResult> result = DecodeStreamMessages(
      request, {ToBytes(tokens.SerializeAsString()), ToBytes(rows.SerializeAsString()),
                ToBytes(weights.SerializeAsString()), ToBytes(summary.SerializeAsString())});
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->output.shape(), ElementsAre(1, 2));
  EXPECT_THAT(result->tokens[0].ids(), ElementsAre(4));
  EXPECT_EQ(result->layer_weights[0].layer, 2);
  EXPECT_THAT(result->layer_weights[0].weights.shape(), ElementsAre(1, 1, 1));
}

TEST(DecodeStreamMessagesTest, RefusesMessagesWithoutAPart) {
  EXPECT_THAT(DecodeStreamMessage(ToBytes("")),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("no part")));
}

}  // namespace
}  // namespace attention
