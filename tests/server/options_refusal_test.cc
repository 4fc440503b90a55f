// Options that the server refuses before any work, and its words.
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "tests/server/wire_options.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

struct Refusal {
  std::string options;
  std::string text;  // after "options."
};

// Two packed sequences of 2 and 3 rows over 4 and 6 keys, 4 heads of 16 elements.
class OptionsRefusalTest : public ::testing::Test {
 protected:
  OptionsRefusalTest() {
    request_ = QkvRequest(SeededTensor(1, Dtype::kF32, {5, 4, 16}),
                          SeededTensor(2, Dtype::kF32, {10, 2, 16}),
                          SeededTensor(3, Dtype::kF32, {10, 2, 8}));
    v1::QueryKeyValue& input = *request_.mutable_query_key_value();
    input.add_lengths(2);
    input.add_lengths(3);
    input.add_kv_lengths(4);
    input.add_kv_lengths(6);
  }

  void ExpectRefusal(const v1::AttentionOptions& options, const std::string& text) {
    *request_.mutable_options() = options;
    v1::AttendResponse response;
    const grpc::Status status = client_.Attend(request_, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), "options." + text);
  }
  void ExpectRefusals(const std::vector<Refusal>& refusals) {
    for (const Refusal& refusal : refusals) {
      ExpectRefusal(Options(refusal.options), refusal.text);
    }
  }

  InProcessServer server_;
  AttendClient client_{server_.NewChannel()};
  v1::AttendRequest request_;
};

TEST_F(OptionsRefusalTest, NumbersOutOfRange) {
  ExpectRefusals({
      {"window: -3", "window: expected 0 or more, found -3"},
      {"window_right: -1", "window_right: expected 0 or more, found -1"},
      {"window: 4 window_dilation: 0", "window_dilation: expected 1 or more, found 0"},
      {"window: 4 window_dilation: -2", "window_dilation: expected 1 or more, found -2"},
      {"window_dilation: 2", "window_dilation: expected 1 without a window, found 2"},
      {"window_right: 3 window_dilation: 2",
       "window_dilation: expected 1 without a window, found 2"},
      {"window: 4 window_dilation: 2 sequences {} sequences { window: 0 }",
       "sequences[1].window_dilation: expected 1 without a window, found 2"},
      {"prefix: -1", "prefix: expected 0 or more, found -1"},
      {"weights_top_k: -1", "weights_top_k: expected 0 or more, found -1"},
      {"softcap: -1", "softcap: expected 0 to 1e30, found -1"},
      {"softcap: inf", "softcap: expected 0 to 1e30, found inf"},
      {"softcap: 2e30", "softcap: expected 0 to 1e30, found 2e+30"},
      {"rotary { scaling: LINEAR factor: 1e-320 }",
       "rotary.factor: expected at least 1e-100, found 9.99989e-321"},
      {"softcap: 1e-300", "softcap: expected a number that FP32 can hold, found 1e-300"},
      {"scale: 1e-60", "scale: expected a number that FP32 can hold, found 1e-60"},
      {"query_norm { epsilon: 1e-50 }",
       "query_norm.epsilon: expected a number that FP32 can hold, found 1e-50"},
      {"scale: nan", "scale: expected a finite FP32 number, found nan"},
      {"scale: 1e-40", "scale: expected 0 or at least 1.18e-38 in magnitude, found 9.99995e-41"},
      {"query_norm { epsilon: 0 }",
       "query_norm.epsilon: expected a finite positive FP32 number, found 0"},
      {"key_norm { epsilon: -1 }",
       "key_norm.epsilon: expected a finite positive FP32 number, found -1"},
      {"key_norm { weight: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, nan] }",
       "key_norm.weight[15]: expected a finite number, found nan"},
  });
}

TEST_F(OptionsRefusalTest, ListsOfAnotherLength) {
  ExpectRefusals({
      {"alibi_slopes: [1, 2, 3]",
       "alibi_slopes: expected no value or one for each of 4 heads, found 3"},
      {"sinks: 1", "sinks: expected no value or one for each of 4 heads, found 1"},
      {"sinks: [1, 1, inf, 1]", "sinks[2]: expected a finite number, found inf"},
      {"alibi_slopes: [nan, 1, 1, 1]", "alibi_slopes[0]: expected a finite number, found nan"},
      {"query_norm { weight: [1, 2] }",
       "query_norm.weight: expected no value or one for each of a head's 16 elements, found 2"},
      {"key_norm { weight: 1 }",
       "key_norm.weight: expected no value or one for each of a head's 16 elements, found 1"},
      {"sequences {}", "sequences: expected none or one for each of 2 sequences, found 1"},
  });
}

TEST_F(OptionsRefusalTest, GlobalTokensThatAreNoAscendingPositions) {
  ExpectRefusals({
      {"global_tokens: [0, 6]",
       "global_tokens[1]: expected strictly ascending positions below 6, found 6"},
      {"global_tokens: -1",
       "global_tokens[0]: expected strictly ascending positions below 6, found -1"},
      {"global_tokens: [2, 2]",
       "global_tokens[1]: expected strictly ascending positions below 6, found 2"},
      {"sequences { global_tokens: 4 } sequences {}",
       "sequences[0].global_tokens[0]: expected strictly ascending positions below 4, found 4"},
      {"sequences {} sequences { window: -2 }",
       "sequences[1].window: expected 0 or more, found -2"},
  });
}

TEST_F(OptionsRefusalTest, RotaryThatTurnsNothing) {
  ExpectRefusals({
      {"rotary { dim: 3 }",
       "rotary.dim: expected an even number of at most 16, a head's elements, found 3"},
      {"rotary { dim: 18 }",
       "rotary.dim: expected an even number of at most 16, a head's elements, found 18"},
      {"rotary { dim: -2 }",
       "rotary.dim: expected an even number of at most 16, a head's elements, found -2"},
      {"rotary { base: 0 }", "rotary.base: expected a finite positive number, found 0"},
      {"rotary { base: 5e-324 }", "rotary.base: expected at least 1e-100, found 4.94066e-324"},
      {"rotary { scaling: LINEAR factor: -4 }",
       "rotary.factor: expected a finite positive number, found -4"},
      {"rotary { scaling: LLAMA3 low_freq_factor: nan }",
       "rotary.low_freq_factor: expected a finite positive number, found nan"},
      {"rotary { scaling: LLAMA3 high_freq_factor: 1 }",
       "rotary.high_freq_factor: expected more than low_freq_factor 1, found 1"},
      {"rotary { scaling: LLAMA3 original_max_positions: 0 }",
       "rotary.original_max_positions: expected 1 or more, found 0"},
      {"rotary { position_offset: -9223372036854775808 }",
       "rotary.position_offset: expected -1099511627776 to 1099511627776, found "
       "-9223372036854775808"},
  });
  v1::AttentionOptions options;
  options.mutable_rotary()->set_scaling(static_cast<v1::Rotary::Scaling>(7));
  ExpectRefusal(options, "rotary.scaling: expected NONE (0), LINEAR (1) or LLAMA3 (2), found 7");
}

TEST_F(OptionsRefusalTest, RotaryNumbersThatTheScalingDoesNotUse) {
  ExpectRefusals({
      {"rotary { factor: 8 }", "rotary.factor: expected 1 with scaling NONE, found 8"},
      {"rotary { low_freq_factor: nan }",
       "rotary.low_freq_factor: expected 1 with scaling NONE, found nan"},
      {"rotary { scaling: LINEAR factor: 2 low_freq_factor: 3 }",
       "rotary.low_freq_factor: expected 1 with scaling LINEAR, found 3"},
      {"rotary { scaling: LINEAR factor: 2 high_freq_factor: 9 }",
       "rotary.high_freq_factor: expected 4 with scaling LINEAR, found 9"},
      {"rotary { scaling: LINEAR factor: 2 original_max_positions: 7 }",
       "rotary.original_max_positions: expected 8192 with scaling LINEAR, found 7"},
  });
  *request_.mutable_options() = Options(
      "rotary { factor: 1 low_freq_factor: 1 high_freq_factor: 4 original_max_positions: 8192 }");
  v1::AttendResponse response;
  EXPECT_TRUE(client_.Attend(request_, &response).ok()) << "defaults change nothing";
}

TEST_F(OptionsRefusalTest, SimilaritiesWithWhatIsNotTheirs) {
  const std::string none = ": expected none with similarity ";
  ExpectRefusals({
      {"bandwidth: 2", "bandwidth: expected 0 with similarity DOT_PRODUCT, found 2"},
      {"similarity: BOX", "bandwidth: expected a finite positive number, found 0"},
      {"similarity: LINEAR bandwidth: 1", "bandwidth: expected 0 with similarity LINEAR, found 1"},
      {"similarity: GAUSSIAN bandwidth: 1 scale: 1", "scale" + none + "GAUSSIAN, found one"},
      {"similarity: BOX bandwidth: 1 softcap: 1", "softcap" + none + "BOX, found one"},
      {"similarity: TRIANGULAR bandwidth: 1 alibi_slopes: [1, 1, 1, 1]",
       "alibi_slopes" + none + "TRIANGULAR, found one"},
      {"similarity: BOX bandwidth: 1 sinks: [1, 1, 1, 1]", "sinks" + none + "BOX, found one"},
      {"similarity: BOX bandwidth: 1 bias {}", "bias" + none + "BOX, found one"},
      {"similarity: LINEAR scale: 1", "scale" + none + "LINEAR, found one"},
      {"similarity: LINEAR window: 1", "window" + none + "LINEAR, found one"},
      {"similarity: LINEAR window_right: 1", "window_right" + none + "LINEAR, found one"},
      {"similarity: LINEAR window_dilation: 2", "window_dilation" + none + "LINEAR, found one"},
      {"similarity: LINEAR prefix: 1", "prefix" + none + "LINEAR, found one"},
      {"similarity: LINEAR global_tokens: 0", "global_tokens" + none + "LINEAR, found one"},
      {"similarity: LINEAR mask {}", "mask" + none + "LINEAR, found one"},
      {"similarity: LINEAR sequences {} sequences { prefix: 1 }",
       "sequences[1].prefix" + none + "LINEAR, found one"},
  });
  v1::AttentionOptions options;
  options.set_similarity(static_cast<v1::Similarity>(9));
  ExpectRefusal(options,
                "similarity: expected DOT_PRODUCT (0), GAUSSIAN (1), BOX (2), TRIANGULAR (3) or "
                "LINEAR (4), found 9");
}

TEST_F(OptionsRefusalTest, BiasAndMaskThatDoNotFit) {
  v1::AttentionOptions options;
  const auto with_bias = [&](v1::DataType dtype, const Shape& shape, size_t size_bytes) {
    options.Clear();
    WriteTensorHeader(dtype, shape, *options.mutable_bias());
    options.mutable_bias()->set_data(std::string(size_bytes, '\0'));
    return options;
  };
  const std::string expected = "bias.shape: expected [1 or 2, 1 or 4, 3, 6], found ";
  ExpectRefusal(with_bias(v1::FP32, {3, 6}, 72), expected + "[3, 6]");
  ExpectRefusal(with_bias(v1::FP32, {3, 1, 3, 6}, 216), expected + "[3, 1, 3, 6]");
  ExpectRefusal(with_bias(v1::FP32, {1, 2, 3, 6}, 144), expected + "[1, 2, 3, 6]");
  ExpectRefusal(with_bias(v1::FP32, {1, 1, 6, 3}, 72), expected + "[1, 1, 6, 3]");
  ExpectRefusal(with_bias(v1::FP32, {1, 1, 3, 6}, 71),
                "bias.data: expected 72 bytes for FP32 [1, 1, 3, 6], found 71");
  ExpectRefusal(with_bias(v1::BF16, {1, 1, 3, 6}, 36), "bias.dtype: expected FP32, found BF16");
  ExpectRefusal(with_bias(v1::BOOL, {1, 1, 3, 6}, 18), "bias.dtype: expected FP32, found BOOL");
  options.Clear();
  WriteTensorHeader(v1::FP32, {1, 1, 3, 6}, *options.mutable_mask());
  ExpectRefusal(options, "mask.dtype: expected BOOL, found FP32");
  WriteTensorHeader(v1::BOOL, {2, 4, 3, 5}, *options.mutable_mask());
  options.mutable_mask()->set_data(std::string(120, '\1'));
  ExpectRefusal(options, "mask.shape: expected [1 or 2, 1 or 4, 3, 6], found [2, 4, 3, 5]");
}

TEST_F(OptionsRefusalTest, BoolsAndIntegersAsInputs) {
  request_.mutable_query_key_value()->mutable_query()->set_dtype(v1::BOOL);
  v1::AttendResponse response;
  EXPECT_EQ(client_.Attend(request_, &response).error_message(),
            "query_key_value.query.dtype: expected FP32 (1), BF16 (2) or FP16 (3), found BOOL");
}

TEST(OptionsReplySizeTest, CountsLogSumExpAndLargestWeights) {
  InProcessServer server({.max_message_bytes = 4 << 20, .max_queue_bytes = 8 << 20});
  AttendClient client(server.NewChannel());
  const Tensor rows = SeededTensor(1, Dtype::kF32, {600, 8, 16});
  v1::AttendRequest request = QkvRequest(rows, rows, rows);
  *request.mutable_options() = Options("return_log_sum_exp: true weights_top_k: 1000000000000");
  v1::AttendResponse response;
  // 600 * 8 rows of 16 outputs, 1 log-sum-exp and 600 weights and keys.
  EXPECT_EQ(client.Attend(request, &response).error_message(),
            "the reply would have 23366400 bytes; the maximum is 4194304 "
            "(--max-message-bytes; AttendStream may send more)");
}

}  // namespace
}  // namespace attention
