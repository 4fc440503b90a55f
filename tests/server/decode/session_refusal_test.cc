// The actions of a session that are refused, each with its code and its exact text.

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/models/golden_server.h"
#include "tests/server/wire_options.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

struct Refused {
  v1::DecodeRequest request;
  absl::StatusCode code;
  std::string message;
};

void ExpectRefused(DecodeStream& stream, const std::vector<Refused>& cases) {
  for (const Refused& refused : cases) {
    const DecodeAnswer answer = stream.Do(refused.request);
    EXPECT_EQ(answer.code(), refused.code) << refused.message;
    EXPECT_EQ(answer.result.message(), refused.message);
  }
}

v1::DecodeRequest OpenWith(v1::DecodeRequest request, const std::string& options) {
  *request.mutable_open()->mutable_options() = Options(options);
  return request;
}

TEST(SessionRefusalTest, SaysWhatIsWrongWithAnOpening) {
  InProcessServer server({.threads = 1});
  DecodeStream stream(server.NewChannel());
  v1::DecodeRequest int32 = OpenModel("demo");
  int32.mutable_open()->set_cache_dtype(v1::INT32);
  v1::DecodeRequest both = OpenHeads(4, 4, 16);
  both.mutable_open()->set_model("demo");
  v1::DecodeRequest forever = OpenModel("demo");
  forever.mutable_open()->set_resume_ttl_ms(3'600'001);
  v1::DecodeRequest old = OpenModel("demo");
  old.mutable_open()->set_model_version(7);
  v1::DecodeRequest whole_numbers = OpenHeads(4, 2, 16);
  whole_numbers.mutable_open()->mutable_heads()->set_dtype(v1::INT8);
  using enum absl::StatusCode;
  ExpectRefused(
      stream,
      {{RowsStep(SeededTensor(1, Dtype::kF32, {1, kDemoWidth}), 0, 1), kFailedPrecondition,
        "action: expected `open` as the first action of a stream, found `step`"},
       {v1::DecodeRequest(), kFailedPrecondition,
        "action: expected `open` as the first action of a stream, found none"},
       {OpenModel("nobody"), kNotFound, "open.model: expected one of \"demo\", found \"nobody\""},
       {old, kNotFound, "open.model_version: expected 1 of model \"demo\", found 7"},
       {OpenModel("demo", 1), kInvalidArgument,
        "open.layer: expected 0 to 0 of the 1 layer of model \"demo\", found 1"},
       {v1::DecodeRequest(OpenModel("")), kInvalidArgument,
        "open.heads: expected num_heads and head_dim of 1 or more without a model, found 0 and 0"},
       {OpenHeads(4, 3, 16), kInvalidArgument,
        "open.heads.num_kv_heads: expected a divisor of num_heads 4, found 3"},
       {OpenHeads(4, -1, 16), kInvalidArgument,
        "open.heads.num_kv_heads: expected a divisor of num_heads 4, found -1"},
       {OpenHeads(4, 2, 513), kInvalidArgument,
        "open.heads.head_dim: expected 1 to 512, found 513"},
       {OpenHeads(int64_t{1} << 62, int64_t{1} << 62, 16), kInvalidArgument,
        "open.heads.num_heads: expected 1 to 1048576, found 4611686018427387904"},
       {OpenWith(OpenHeads(4, 4, 16), "alibi_slopes: 1"), kInvalidArgument,
        "open.options.alibi_slopes: expected no value or one for each of 4 heads, found 1"},
       {whole_numbers, kInvalidArgument,
        "open.heads.dtype: expected FP32, BF16 or FP16, found INT8"},
       {int32, kInvalidArgument, "open.cache_dtype: expected FP32, BF16 or INT8, found INT32"},
       {both, kInvalidArgument, "open.heads: expected none with a model, found some"},
       {forever, kInvalidArgument, "open.resume_ttl_ms: expected 0 to 3600000, found 3600001"},
       {OpenWith(OpenModel("demo"), "prefix: 3"), kInvalidArgument,
        "open.options.prefix: expected none in a session, whose later keys are not known yet, "
        "found one"},
       {OpenWith(OpenModel("demo"), "similarity: LINEAR"), kInvalidArgument,
        "open.options.similarity: expected DOT_PRODUCT, GAUSSIAN, BOX or TRIANGULAR in a session, "
        "found LINEAR"},
       {OpenWith(OpenModel("demo"), "window: -3"), kInvalidArgument,
        "open.options.window: expected 0 or more, found -3"}});
  const DecodeAnswer numbered = stream.Do(OpenModel("demo"), 5);
  EXPECT_EQ(numbered.code(), kInvalidArgument);
  EXPECT_EQ(numbered.result.message(), "sequence: expected 0 for `open`, found 5");
  stream.Must(OpenModel("demo"));
  ExpectRefused(stream, {{OpenModel("demo"), kFailedPrecondition,
                          "open: expected a stream without a session, found one"}});
}

TEST(SessionRefusalTest, SaysWhichLayersHaveNoSessions) {
  InProcessServer server(ServerOptionsFor(kCheckpoints));
  DecodeStream stream(server.NewChannel());
  using enum absl::StatusCode;
  ExpectRefused(stream, {{OpenModel("torch_mha-bias-kv", 0), kInvalidArgument,
                          "open.layer: model torch_mha-bias-kv: layer 0: cache: expected a layer "
                          "without extra keys, found 1"},
                         {OpenModel("torch_mha-bias-kv", 1), kInvalidArgument,
                          "open.layer: expected 0 to 0 of the 1 layer of model "
                          "\"torch_mha-bias-kv\", found 1"}});
  stream.Must(OpenModel("bert", 0));
}

TEST(SessionRefusalTest, SaysWhatIsWrongWithAStep) {
  InProcessServer server({.threads = 1});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  const Tensor rows = SeededTensor(1, Dtype::kF32, {4, kDemoWidth});
  v1::DecodeRequest with_lengths = RowsStep(rows, 0, 4);
  with_lengths.mutable_step()->mutable_hidden_states()->add_lengths(4);
  v1::DecodeRequest with_logits = RowsStep(rows, 0, 4);
  with_logits.mutable_step()->set_top_logits(3);
  v1::DecodeRequest without_output = with_logits;
  without_output.mutable_step()->set_no_output(true);
  v1::DecodeRequest pooled = RowsStep(rows, 0, 4);
  pooled.mutable_step()->set_model_output(v1::MEAN_POOLED);
  v1::DecodeRequest logits = RowsStep(rows, 0, 4);
  logits.mutable_step()->set_model_output(v1::LAST_LOGITS);
  v1::DecodeRequest empty;
  empty.mutable_step();
  using enum absl::StatusCode;
  ExpectRefused(
      stream,
      {{v1::DecodeRequest(), kInvalidArgument,
        "action: expected open, step, fork, truncate or release, found none of them"},
       {empty, kInvalidArgument,
        "step.input: expected hidden_states, token_ids, text or query_key_value, found none of "
        "them"},
       {with_lengths, kInvalidArgument,
        "step.hidden_states.lengths: expected none in a session, whose steps have one sequence, "
        "found 1"},
       {with_logits, kInvalidArgument,
        "step.top_logits: expected 0 in a session without logits (a layer, or a model without "
        "Model.has_logits), found 3"},
       {without_output, kInvalidArgument, "step.top_logits: expected 0 with no_output, found 3"},
       {pooled, kInvalidArgument,
        "step.model_output: expected LAST_HIDDEN_STATES in a session without logits, found "
        "MEAN_POOLED"},
       {logits, kInvalidArgument,
        "step.model_output: expected LAST_HIDDEN_STATES in a session without logits, found "
        "LAST_LOGITS"},
       {RowsStep(rows, 0, 0), kInvalidArgument, "step: expected at least one token, found none"},
       {RowsStep(SeededTensor(1, Dtype::kF32, {4, 100}), 0, 4), kInvalidArgument,
        "step.hidden_states.tensor.shape: expected rows of 512, found [4, 100]"},
       {TokensStep({1, 1000}), kInvalidArgument,
        "step.token_ids.ids: expected 0 to 999, found 1000 at position 1 in sequence 0"},
       {RowsStep(SeededTensor(1, Dtype::kF32, {2, 2, kDemoWidth}), 0, 2), kInvalidArgument,
        "step: expected one sequence, found 2"},
       {ForkTo(0), kInvalidArgument, "fork.new_sequence: expected 1 to 65535, found 0"},
       {ForkTo(65536), kInvalidArgument, "fork.new_sequence: expected 1 to 65535, found 65536"}});
  stream.Must(ForkTo(65535));
  ExpectRefused(stream, {{ForkTo(65535), kAlreadyExists,
                          "fork.new_sequence: expected a number that is free, found 65535"}});
  EXPECT_EQ(stream.Must(RowsStep(rows, 0, 4)).result.length(), 4) << "nothing was lost";
}

TEST(SessionRefusalTest, ASessionHasAtMost1024Sequences) {
  InProcessServer server({.threads = 1});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  for (int64_t number = 1; number < 1024; ++number) {
    stream.Must(ForkTo(number));
  }
  using enum absl::StatusCode;
  ExpectRefused(stream, {{ForkTo(1024), kResourceExhausted,
                          "fork: expected at most 1024 sequences in a session, found as many"}});
  stream.Must(Release(), 7);
  stream.Must(ForkTo(1024));
}

TEST(SessionRefusalTest, AStepHasAtMost1024LargestLogits) {
  InProcessServer server(ServerOptionsFor(kCheckpoints));
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("llama"));
  v1::DecodeRequest step = TokensStep({1, 2});
  using enum absl::StatusCode;
  for (const int64_t count : {int64_t{-1}, int64_t{1025}}) {
    step.mutable_step()->set_top_logits(count);
    ExpectRefused(stream, {{step, kInvalidArgument,
                            absl::StrCat("step.top_logits: expected 0 to 1024, found ", count)}});
  }
  step.mutable_step()->set_top_logits(1024);
  EXPECT_GT(stream.Must(step).result.top_logits().ids_size(), 0);
}

TEST(SessionRefusalTest, StepsWithoutAModelKeepToTheirHeads) {
  InProcessServer server({.threads = 1});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenHeads(4, 2, 16));
  v1::DecodeRequest step;
  v1::QueryKeyValue& input = *step.mutable_step()->mutable_query_key_value();
  ToWireTensor(SeededTensor(1, Dtype::kF32, {3, 4, 16}), input.mutable_query());
  ToWireTensor(SeededTensor(1, Dtype::kF32, {3, 4, 16}), input.mutable_key());
  ToWireTensor(SeededTensor(1, Dtype::kF32, {3, 4, 16}), input.mutable_value());
  using enum absl::StatusCode;
  ExpectRefused(stream,
                {{step, kInvalidArgument,
                  "step.query_key_value: expected 4 query heads and 2 key heads of 16, values of "
                  "16, FP32 as the session has, found 4 query heads and 4 key heads of 16, values "
                  "of 16, FP32"},
                 {RowsStep(SeededTensor(1, Dtype::kF32, {4, 64}), 0, 4), kInvalidArgument,
                  "step.input: expected query_key_value in a session without a model, found "
                  "another input"}});
}

TEST(SessionRefusalTest, OnlyPlacedRowsMayDifferInNumberFromTheirKeys) {
  InProcessServer server({.threads = 1});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenHeads(4, 2, 16));
  v1::DecodeRequest unplaced, two_places, empty;
  v1::QueryKeyValue& input = *unplaced.mutable_step()->mutable_query_key_value();
  ToWireTensor(SeededTensor(1, Dtype::kF32, {3, 4, 16}), input.mutable_query());
  ToWireTensor(SeededTensor(1, Dtype::kF32, {2, 2, 16}), input.mutable_key());
  *input.mutable_value() = input.key();
  two_places = unplaced;
  two_places.mutable_step()->mutable_query_key_value()->add_query_offsets(0);
  two_places.mutable_step()->mutable_query_key_value()->add_query_offsets(0);
  v1::QueryKeyValue& nothing = *empty.mutable_step()->mutable_query_key_value();
  ToWireTensor(Tensor(Dtype::kF32, {0, 4, 16}), nothing.mutable_query());
  ToWireTensor(Tensor(Dtype::kF32, {0, 2, 16}), nothing.mutable_key());
  *nothing.mutable_value() = nothing.key();
  nothing.add_query_offsets(0);
  using enum absl::StatusCode;
  ExpectRefused(stream,
                {{unplaced, kInvalidArgument,
                  "step.query_key_value.key.shape: expected as many rows as query, 3, "
                  "without query_offsets, found 2"},
                 {two_places, kInvalidArgument,
                  "step.query_key_value.query_offsets: expected no value or one for each of 1 "
                  "sequences, found 2"},
                 {empty, kInvalidArgument, "step: expected at least one token, found none"}});
}

}  // namespace
}  // namespace attention
