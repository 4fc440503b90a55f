// Every kind of attention that a request may ask for, against the double-precision reference.
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "tests/server/wire_options.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kHeads = 4;
constexpr int64_t kHeadDim = 16;
constexpr int64_t kValueDim = 8;
constexpr int64_t kRows = 5;
constexpr int64_t kKeys = 7;
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Two sequences of five rows over seven and four keys, padded; the first row stands at key 2.
class OptionsTest : public ::testing::Test {
 protected:
  v1::AttendRequest Request(const v1::AttentionOptions& options) const {
    v1::AttendRequest request = QkvRequest(query_, key_, value_);
    request.mutable_query_key_value()->add_kv_lengths(kv_lens_[0]);
    request.mutable_query_key_value()->add_kv_lengths(kv_lens_[1]);
    *request.mutable_options() = options;
    request.mutable_options()->set_return_weights(true);
    request.mutable_options()->set_return_log_sum_exp(true);
    request.mutable_options()->set_weights_top_k(3);
    return request;
  }

  v1::AttendResponse Attend(const v1::AttendRequest& request) { return client_.Must(request); }

  reference::AttentionResult Expected(int64_t sequence, reference::Options options) const {
    const int64_t kv_len = kv_lens_[sequence];
    options.query_offset = kKeys - kRows;
    return reference::Attention({kRows, kv_len, kHeads, 2, kHeadDim, kValueDim},
                                Rows(ToDoubles(query_), kHeads * kHeadDim, sequence * kRows, kRows),
                                Rows(ToDoubles(key_), 2 * kHeadDim, sequence * kKeys, kv_len),
                                Rows(ToDoubles(value_), 2 * kValueDim, sequence * kKeys, kv_len),
                                options);
  }

  // Output, weights, log-sum-exp and largest weights of one sequence.
  void ExpectSequence(const v1::AttendResponse& response, int sequence,
                      const reference::Options& options) const {
    const reference::AttentionResult expected = Expected(sequence, options);
    ASSERT_GT(response.top_weights_size(), sequence);
    const double tolerance = reference::kAttentionToleranceF32;
    EXPECT_LE(reference::RelativeL2(
                  Rows(ToDoubles(response.output()), kHeads * kValueDim, sequence * kRows, kRows),
                  expected.output),
              tolerance);
    EXPECT_LE(reference::RelativeL2(ToDoubles(response.weights(sequence)), expected.weights),
              tolerance);
    ExpectLogSumExp(ToDoubles(response.log_sum_exp(sequence)), expected.log_sum_exp);
    ExpectTopWeights(response.top_weights(sequence), response.weights(sequence));
  }

  static void ExpectLogSumExp(const std::vector<double>& actual,
                              const std::vector<double>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == kMinusInfinity) {
        EXPECT_EQ(actual[i], kMinusInfinity);
      }
    }
    EXPECT_LE(reference::RelativeL2(actual, expected), reference::kAttentionToleranceF32);
  }

  // The largest weights are some of the weights, in their order.
  static void ExpectTopWeights(const v1::TopWeights& top, const v1::Tensor& weights) {
    const int64_t kv_len = weights.shape(2);
    ASSERT_THAT(top.weights().shape(), ElementsAre(kHeads, kRows, 3));
    ASSERT_THAT(top.keys().shape(), ElementsAre(kHeads, kRows, 3));
    ASSERT_EQ(top.keys().dtype(), v1::INT32);
    const std::vector<double> all = ToDoubles(weights), values = ToDoubles(top.weights());
    std::vector<int32_t> keys(values.size());
    ASSERT_EQ(top.keys().data().size(), keys.size() * sizeof(int32_t));
    std::memcpy(keys.data(), top.keys().data().data(), top.keys().data().size());
    for (int64_t row = 0; row < kHeads * kRows; ++row) {
      std::vector<std::pair<double, int64_t>> expected;
      for (int64_t j = 0; j < kv_len; ++j) {
        expected.emplace_back(-all[row * kv_len + j], j);
      }
      std::sort(expected.begin(), expected.end());
      for (int64_t i = 0; i < 3; ++i) {
        EXPECT_FLOAT_EQ(values[row * 3 + i], -expected[i].first) << "row " << row;
        EXPECT_TRUE(keys[row * 3 + i] == expected[i].second || expected[i].first == 0)
            << "row " << row;
      }
    }
  }

  InProcessServer server_{{.threads = 2}};
  AttendClient client_{server_.NewChannel()};
  const Tensor query_ = SeededTensor(1, Dtype::kF32, {2, kRows, kHeads, kHeadDim});
  const Tensor key_ = SeededTensor(2, Dtype::kF32, {2, kKeys, 2, kHeadDim});
  const Tensor value_ = SeededTensor(3, Dtype::kF32, {2, kKeys, 2, kValueDim});
  const int64_t kv_lens_[2] = {kKeys, 4};
};

TEST_F(OptionsTest, EachKindAgreesWithTheReference) {
  using Scaling = reference::Rotary::Scaling;
  using reference::Similarity;
  const std::vector<double> ramp = [] {
    std::vector<double> values;
    for (int i = 0; i < kHeadDim; ++i) {
      values.push_back(0.25 * (i % 5) - 0.5);
    }
    return values;
  }();
  v1::AttentionOptions norms = Options("query_norm {} key_norm { epsilon: 0.125 }");
  norms.mutable_key_norm()->mutable_weight()->Assign(ramp.begin(), ramp.end());
  const std::pair<v1::AttentionOptions, reference::Options> cases[] = {
      {Options("causal: true window: 3"), {.causal = true, .window = 3}},
      {Options("window: 2 window_right: 1"), {.window = 2, .window_right = 1}},
      {Options("window: 9223372036854775807 window_right: 9223372036854775807"), {}},
      {Options("window: 5 window_right: 4 window_dilation: 2"),
       {.window = 5, .window_right = 4, .window_dilation = 2}},
      {Options("window: 9223372036854775807 window_dilation: 3"),
       {.window = 100, .window_dilation = 3}},
      {Options("window: 3 window_dilation: 1"), {.window = 3}},
      {Options("causal: true prefix: 5"), {.causal = true, .prefix = 5}},
      {Options("window: 1 window_right: 1 global_tokens: [0, 3]"),
       {.window = 1, .window_right = 1, .global_tokens = {0, 3}}},
      {Options("scale: -0.5 softcap: 2"), {.scale = -0.5, .softcap = 2}},
      {Options("alibi_slopes: [0.5, 0.25, 0.125, -1]"), {.alibi_slopes = {0.5, 0.25, 0.125, -1}}},
      {Options("causal: true sinks: [0.5, -1, 2, 0]"), {.causal = true, .sinks = {0.5, -1, 2, 0}}},
      {Options("rotary {}"), {.rotary = reference::Rotary{}}},
      {Options("rotary { dim: 8 base: 500 interleaved: true position_offset: 3 }"),
       {.rotary =
            reference::Rotary{.dim = 8, .base = 500, .interleaved = true, .position_offset = 3}}},
      {Options("rotary { scaling: LINEAR factor: 4 }"),
       {.rotary = reference::Rotary{.scaling = Scaling::kLinear, .factor = 4}}},
      {Options("rotary { scaling: LLAMA3 factor: 8 low_freq_factor: 1 high_freq_factor: 3 "
               "original_max_positions: 64 }"),
       {.rotary = reference::Rotary{.scaling = Scaling::kLlama3,
                                    .factor = 8,
                                    .low_freq_factor = 1,
                                    .high_freq_factor = 3,
                                    .original_max_positions = 64}}},
      {norms,
       {.query_norm = reference::RmsNorm{},
        .key_norm = reference::RmsNorm{.weight = ramp, .epsilon = 0.125}}},
      {Options("similarity: GAUSSIAN bandwidth: 12 causal: true"),
       {.causal = true, .similarity = Similarity::kGaussian, .bandwidth = 12}},
      {Options("similarity: BOX bandwidth: 5.5"),
       {.similarity = Similarity::kBox, .bandwidth = 5.5}},
      {Options("similarity: TRIANGULAR bandwidth: 8 window: 4"),
       {.window = 4, .similarity = Similarity::kTriangular, .bandwidth = 8}},
      {Options("similarity: LINEAR"), {.similarity = Similarity::kLinear}},
      {Options("similarity: LINEAR causal: true rotary {}"),
       {.causal = true, .rotary = reference::Rotary{}, .similarity = Similarity::kLinear}},
      {Options("causal: true window: 4 prefix: 1 softcap: 5 sinks: [1, 1, 1, 1] rotary {} "
               "query_norm {} key_norm {} alibi_slopes: [0.5, 0.25, 0.125, 0]"),
       {.causal = true,
        .window = 4,
        .prefix = 1,
        .softcap = 5,
        .alibi_slopes = {0.5, 0.25, 0.125, 0},
        .sinks = {1, 1, 1, 1},
        .query_norm = reference::RmsNorm{},
        .key_norm = reference::RmsNorm{},
        .rotary = reference::Rotary{}}},
  };
  for (const auto& [wire, options] : cases) {
    SCOPED_TRACE(wire.ShortDebugString());
    const v1::AttendResponse response = Attend(Request(wire));
    ExpectSequence(response, 0, options);
    ExpectSequence(response, 1, options);
  }
}

TEST_F(OptionsTest, ShorterSequencesTakeTheGlobalTokensTheyHave) {
  const v1::AttendResponse response =
      Attend(Request(Options("causal: true window: 1 global_tokens: [1, 4, 6]")));
  ExpectSequence(response, 0, {.causal = true, .window = 1, .global_tokens = {1, 4, 6}});
  ExpectSequence(response, 1, {.causal = true, .window = 1, .global_tokens = {1}});
}

TEST_F(OptionsTest, BiasAndMaskOfEveryShape) {
  for (const int64_t batch : {1, 2}) {
    for (const int64_t heads : {int64_t{1}, kHeads}) {
      SCOPED_TRACE(::testing::Message() << "batch " << batch << ", heads " << heads);
      const Shape shape = {batch, heads, kRows, kKeys};
      v1::AttentionOptions options = Options("causal: true");
      SetScores<float>(v1::FP32, shape, BiasAt, options.mutable_bias());
      SetScores<uint8_t>(v1::BOOL, shape, MaskAt, options.mutable_mask());
      const v1::AttendResponse response = Attend(Request(options));
      for (int64_t i = 0; i < 2; ++i) {
        const int64_t b = batch == 1 ? 0 : i;
        ExpectSequence(response, static_cast<int>(i),
                       {.causal = true,
                        .mask = Scores<uint8_t>(b, heads, kRows, kv_lens_[i], MaskAt),
                        .bias = Scores<double>(b, heads, kRows, kv_lens_[i], BiasAt)});
      }
    }
  }
}

TEST_F(OptionsTest, MinusInfinityInABiasHidesTheKey) {
  const auto bias = [](int64_t, int64_t, int64_t row, int64_t key) {
    return row == 1 || key == 0 ? -std::numeric_limits<float>::infinity() : 0.5f;
  };
  v1::AttentionOptions options;
  SetScores<float>(v1::FP32, {1, 1, kRows, kKeys}, bias, options.mutable_bias());
  const v1::AttendResponse response = Attend(Request(options));
  for (int i = 0; i < 2; ++i) {
    ExpectSequence(response, i, {.bias = Scores<double>(0, 1, kRows, kv_lens_[i], bias)});
  }
}

TEST_F(OptionsTest, SequencesDifferInWhatTheySee) {
  const v1::AttendResponse response = Attend(
      Request(Options("causal: true window: 2 sequences { causal: false window: 0 window_right: 1 }"
                      "sequences { window: 4 window_dilation: 2 prefix: 2 global_tokens: 3 }")));
  ExpectSequence(response, 0, {.window_right = 1});
  ExpectSequence(
      response, 1,
      {.causal = true, .window = 4, .window_dilation = 2, .prefix = 2, .global_tokens = {3}});
}

// Packed, so that Sq and Sk of bias and mask are the longest lengths: 4 rows, 6 keys.
TEST_F(OptionsTest, PackedSequencesTakeTheTopLeftOfABias) {
  const Tensor query = SeededTensor(4, Dtype::kF32, {6, kHeads, kHeadDim});
  const Tensor key = SeededTensor(5, Dtype::kF32, {9, 2, kHeadDim});
  const Tensor value = SeededTensor(6, Dtype::kF32, {9, 2, kValueDim});
  v1::AttendRequest request = QkvRequest(query, key, value);
  for (const int64_t length : {2, 0, 4}) {
    request.mutable_query_key_value()->add_lengths(length);
  }
  for (const int64_t length : {6, 0, 3}) {
    request.mutable_query_key_value()->add_kv_lengths(length);
  }
  SetScores<float>(v1::FP32, {3, kHeads, 4, 6}, BiasAt, request.mutable_options()->mutable_bias());
  SetScores<uint8_t>(v1::BOOL, {1, 1, 4, 6}, MaskAt, request.mutable_options()->mutable_mask());
  const v1::AttendResponse response = Attend(request);
  const struct {
    int64_t batch, first_row, rows, first_key, keys;
  } sequences[] = {{0, 0, 2, 0, 6}, {2, 2, 4, 6, 3}};
  for (const auto& s : sequences) {
    const auto expected =
        reference::Attention({s.rows, s.keys, kHeads, 2, kHeadDim, kValueDim},
                             Rows(ToDoubles(query), kHeads * kHeadDim, s.first_row, s.rows),
                             Rows(ToDoubles(key), 2 * kHeadDim, s.first_key, s.keys),
                             Rows(ToDoubles(value), 2 * kValueDim, s.first_key, s.keys),
                             {.mask = Scores<uint8_t>(0, 1, s.rows, s.keys, MaskAt),
                              .bias = Scores<double>(s.batch, kHeads, s.rows, s.keys, BiasAt)});
    EXPECT_LE(reference::RelativeL2(
                  Rows(ToDoubles(response.output()), kHeads * kValueDim, s.first_row, s.rows),
                  expected.output),
              reference::kAttentionToleranceF32);
  }
}

TEST_F(OptionsTest, RowsWithoutAKeyGiveZerosMinusInfinityAndNoKeys) {
  v1::AttendRequest request = Request(Options("causal: true"));
  request.mutable_query_key_value()->set_kv_lengths(1, 0);
  const v1::AttendResponse response = Attend(request);
  EXPECT_THAT(Rows(ToDoubles(response.output()), kHeads * kValueDim, kRows, kRows),
              ::testing::Each(0.0));
  EXPECT_THAT(ToDoubles(response.log_sum_exp(1)), ::testing::Each(kMinusInfinity));
  EXPECT_THAT(response.top_weights(1).keys().shape(), ElementsAre(kHeads, kRows, 0));

  request.mutable_query_key_value()->set_kv_lengths(1, 4);
  request.mutable_query_key_value()->add_query_offsets(0);
  request.mutable_query_key_value()->add_query_offsets(-2);
  const v1::AttendResponse early = Attend(request);
  const std::vector<int32_t> none = {-1, -1, -1};
  EXPECT_EQ(early.top_weights(1).keys().data().substr(0, 12),
            std::string(reinterpret_cast<const char*>(none.data()), 12));
}

}  // namespace
}  // namespace attention
