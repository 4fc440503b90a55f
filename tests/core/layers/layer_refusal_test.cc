// What a layer refuses before it computes anything, and its words.
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/core/layers/test_layer.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

const MultiHeadAttentionShape kRefusingShape{64, 64, 4, 2, 16, 16};

/// A batch of sequences of 5 and 3 rows, changed, and what is said of it.
struct Wrong {
  std::function<void(Batch& batch)> change;
  std::string text;
};

void ExpectRefusals(const std::vector<Wrong>& cases, const std::vector<int64_t>& memory_lens = {}) {
  const TestLayer layer(kRefusingShape, Dtype::kF32);
  for (const Wrong& wrong : cases) {
    Batch batch(layer, Dtype::kF32, {5, 3}, /*causal=*/false, memory_lens);
    wrong.change(batch);
    EXPECT_THAT(batch.Run(2), StatusIs(absl::StatusCode::kInvalidArgument, wrong.text));
  }
}

template <typename Change>
std::function<void(Batch&)> Second(Change change) {
  return [change](Batch& batch) { change(batch.sequences[1]); };
}

TEST(LayerRefusalTest, GlobalTokensThatTheSequenceDoesNotHave) {
  static constexpr int64_t kBeyond[] = {0, 3};
  static constexpr int64_t kNegative[] = {-1};
  static constexpr int64_t kFar[] = {int64_t{1} << 40};
  static constexpr int64_t kTwice[] = {1, 1};
  const auto tokens = [](std::span<const int64_t> positions) {
    return Second([positions](LayerSequence& s) { s.options.global_tokens = positions; });
  };
  ExpectRefusals({
      {tokens(kBeyond),
       "sequence 1: global_tokens[1]: expected strictly ascending positions below 3, found 3"},
      {tokens(kNegative),
       "sequence 1: global_tokens[0]: expected strictly ascending positions below 3, found -1"},
      {tokens(kFar),
       "sequence 1: global_tokens[0]: expected strictly ascending positions below 3, found "
       "1099511627776"},
      {tokens(kTwice),
       "sequence 1: global_tokens[1]: expected strictly ascending positions below 3, found 1"},
  });
}

TEST(LayerRefusalTest, NumbersOutOfRange) {
  static constexpr float kSlopes[] = {1, 2, 3};
  ExpectRefusals({
      {Second([](LayerSequence& s) { s.options.window = -1; }),
       "sequence 1: window: expected 0 or more, found -1"},
      {Second([](LayerSequence& s) { s.options.prefix = -2; }),
       "sequence 1: prefix: expected 0 or more, found -2"},
      {Second([](LayerSequence& s) { s.options.query_offset = (int64_t{1} << 40) + 1; }),
       "sequence 1: query_offset: expected -1099511627776 to 1099511627776, found 1099511627777"},
      {Second([](LayerSequence& s) { s.options.alibi_slopes = kSlopes; }),
       "sequence 1: alibi_slopes: expected no value or one for each of 4 heads, found 3"},
      {Second([](LayerSequence& s) { s.options.rotary = {.dim = 18}; }),
       "sequence 1: rotary.dim: expected an even number of at most 16, a head's elements, found "
       "18"},
      {Second([](LayerSequence& s) { s.options.key_norm = {.epsilon = -1}; }),
       "sequence 1: key_norm.epsilon: expected a finite positive FP32 number, found -1"},
      {Second([](LayerSequence& s) { s.options.similarity = Similarity::kBox; }),
       "sequence 1: bandwidth: expected a finite positive number, found 0"},
      {Second([](LayerSequence& s) { s.top_weights.k = 2; }),
       "sequence 1: top_weights: expected memory for weights and keys, found none"},
  });
}

TEST(LayerRefusalTest, RowsThatAreNotInTheBatch) {
  ExpectRefusals({
      {Second([](LayerSequence& s) { s.first_row = 4; }),
       "sequence 1: first_row: expected 5, found 4"},
      {Second([](LayerSequence& s) { s.query_len = 4; }),
       "sequence 1: query_len: expected 0 to 3, found 4"},
      {Second([](LayerSequence& s) { s.query_len = s.output.rows = 2; }),
       "rows of all sequences: expected 8, found 7"},
      {Second([](LayerSequence& s) { s.query_len = std::numeric_limits<int64_t>::min(); }),
       "sequence 1: query_len: expected 0 to 3, found -9223372036854775808"},
      {Second([](LayerSequence& s) { s.output.rows = 2; }),
       "sequence 1: output rows: expected 3, found 2"},
      {Second([](LayerSequence& s) { s.output.cols = 65; }),
       "sequence 1: output columns: expected 64, found 65"},
      {[](Batch& batch) { batch.input = SeededTensor(1, Dtype::kF32, {8, 63}); },
       "hidden_states columns: expected 64, found 63"},
  });
  ExpectRefusals(
      {
          {Second([](LayerSequence& s) { s.memory_len = 5; }),
           "sequence 1: memory_len: expected 0 to 4, found 5"},
          {Second([](LayerSequence& s) { s.first_memory_row = 8; }),
           "sequence 1: first_memory_row: expected 9, found 8"},
          {[](Batch& batch) { batch.memory = SeededTensor(1, Dtype::kF32, {13, 32}); },
           "memory columns: expected 64, found 32"},
      },
      {9, 4});
}

TEST(LayerRefusalTest, ALayerOfOtherKeysNeedsTheirRows) {
  const TestLayer layer({64, 100, 2, 2, 32, 32}, Dtype::kF32);
  Batch batch(layer, Dtype::kF32, {5}, /*causal=*/false);
  EXPECT_THAT(batch.Run(1),
              StatusIs(absl::StatusCode::kInvalidArgument, "memory: expected rows, found none"));
}

TEST(LayerRefusalTest, AResidualOfAnotherDtype) {
  const TestLayer layer(kRefusingShape, Dtype::kF32);
  Batch batch(layer, Dtype::kF32, {5}, /*causal=*/false);
  const Tensor residual(Dtype::kBf16, {5, 64});
  ThreadPool pool(1);
  Workspace workspace(pool);
  EXPECT_THAT(
      layer.layer->Run({.hidden_states = View(batch.input),
                        .sequences = batch.sequences,
                        .residual = View(residual)},
                       workspace),
      StatusIs(absl::StatusCode::kInvalidArgument, "residual dtype: expected FP32, found BF16"));
}

TEST(LayerRefusalTest, ExtraKeysOfAnotherWidth) {
  const std::vector<float> matrix(64 * 64);
  const LinearWeights weights{.data = matrix.data()};
  const auto made = [&](std::vector<float> key, std::vector<float> value) {
    return MultiHeadAttention::Create(kRefusingShape,
                                      {.query = weights,
                                       .key = weights,
                                       .value = weights,
                                       .output = weights,
                                       .extra_key = std::move(key),
                                       .extra_value = std::move(value)},
                                      WeightsDtype::kF32)
        .status();
  };
  const std::vector<float> row(2 * 16);
  EXPECT_THAT(made(row, row), IsOk());
  const auto refused = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, text);
  };
  EXPECT_THAT(made(row, {}), refused("extra_value: expected 32 numbers, found 0"));
  EXPECT_THAT(made({}, row), refused("extra_key: expected 32 numbers, found 0"));
  EXPECT_THAT(made(row, {1, 2, 3}), refused("extra_value: expected 32 numbers, found 3"));
}

TEST(LayerRefusalTest, AMemoryOfNegativeWidth) {
  MultiHeadAttentionShape shape = kRefusingShape;
  shape.d_memory_value = -4;
  EXPECT_THAT(
      MultiHeadAttention::Create(shape, {}, WeightsDtype::kF32).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, "d_memory_value: expected 0 or more, found -4"));
}

}  // namespace
}  // namespace attention
