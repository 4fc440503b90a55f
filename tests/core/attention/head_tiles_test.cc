#include "core/kernels/attention/head_tiles.h"

#include <cstdint>
#include <map>
#include <vector>

#include "gtest/gtest.h"

namespace attention {
namespace {

/// Counts the rows that are prefetched, by address.
void Count(const UpcomingRows& upcoming, std::map<const char*, int>& counts) {
  for (int part = 0; part < upcoming.count; ++part) {
    const UpcomingRows::Rows& rows = upcoming.parts[part];
    for (int64_t r = 0; r < rows.rows; ++r) {
      ++counts[rows.first + r * rows.stride_bytes];
    }
  }
}

// Over all heads: each output row, each query row but those of the first tile, and each key and
// value row but those of the first head.
TEST(HeadTilesTest, EachRowIsPrefetchedOnce) {
  constexpr int64_t kTokens = 150;
  constexpr int64_t kHeads = 6;
  constexpr int64_t kKvHeads = 3;
  constexpr int64_t kWidth = 24;
  std::vector<float> query(kTokens * kHeads * kWidth), output(query.size());
  std::vector<float> key(kTokens * kKvHeads * kWidth), value(key.size());
  FlashSequence sequence;
  sequence.query = DenseHeads<const void*>(query.data(), Dtype::kF32, kTokens, kHeads, kWidth);
  sequence.key = DenseHeads<const void*>(key.data(), Dtype::kF32, kTokens, kKvHeads, kWidth);
  sequence.value = DenseHeads<const void*>(value.data(), Dtype::kF32, kTokens, kKvHeads, kWidth);
  sequence.output = DenseHeads<void*>(output.data(), Dtype::kF32, kTokens, kHeads, kWidth);
  std::map<const char*, int> counts;
  for (int64_t head = 0; head < kKvHeads; ++head) {
    const HeadTiles tiles{&sequence, {0, 0, kTokens}, head, kTokens};
    const HeadTiles next{&sequence, {0, 0, kTokens}, head + 1, kTokens};
    ASSERT_EQ(tiles.size(), 2 * 3);
    for (int64_t i = 0; i < tiles.size(); ++i) {
      Count(RowsAfter(tiles, i, head + 1 < kKvHeads ? &next : nullptr), counts);
    }
  }
  const auto count_of = [&](const std::vector<float>& tensor, int64_t heads, int64_t head,
                            int64_t row) {
    const float* first = &tensor[(row * heads + head) * kWidth];
    return counts[reinterpret_cast<const char*>(first)];
  };
  for (int64_t row = 0; row < kTokens; ++row) {
    for (int64_t head = 0; head < kHeads; ++head) {
      ASSERT_EQ(count_of(output, kHeads, head, row), 1);
      ASSERT_EQ(count_of(query, kHeads, head, row), head == 0 && row < kQueryTile ? 0 : 1);
    }
    for (int64_t head = 0; head < kKvHeads; ++head) {
      ASSERT_EQ(count_of(key, kKvHeads, head, row), head == 0 ? 0 : 1);
      ASSERT_EQ(count_of(value, kKvHeads, head, row), head == 0 ? 0 : 1);
    }
  }
  EXPECT_EQ(std::ssize(counts), 2 * kTokens * (kHeads + kKvHeads));
}

}  // namespace
}  // namespace attention
