#include "server/services/reply/top_logits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"

namespace attention {
namespace {

using ::testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

v1::TopLogits Top(const std::vector<float>& logits, int64_t k) {
  v1::TopLogits wire;
  WriteTopLogits(logits, k, wire);
  return wire;
}

std::vector<float> Vocabulary(int64_t size) {
  std::vector<float> logits(size);
  uint32_t state = 1;
  for (float& logit : logits) {
    state = state * 1664525u + 1013904223u;
    logit = static_cast<float>(state >> 8) / 65536.0f - 128.0f;  // few enough that some are equal
  }
  return logits;
}

TEST(TopLogitsTest, AreTheLargestInOrderEqualOnesByTheirId) {
  EXPECT_THAT(Top({1, 5, 3, 5, 4}, 3).ids(), ElementsAre(1, 3, 4));
  EXPECT_THAT(Top({1, 5, 3, 5, 4}, 3).logits(), ElementsAre(5, 5, 4));
  EXPECT_THAT(Top({1, 2}, 10).ids(), ElementsAre(1, 0));
}

TEST(TopLogitsTest, NanComesLast) {
  EXPECT_THAT(Top({kNan, 1, kNan, -kInfinity, 2}, 5).ids(), ElementsAre(4, 1, 0, 2, 3));
  EXPECT_THAT(Top({kNan, 1, kNan, -kInfinity, 2}, 2).ids(), ElementsAre(4, 1));
  EXPECT_TRUE(std::isnan(Top({kNan, 1}, 1).log_sum_exp()));
}

TEST(TopLogitsTest, AgreeWithSortingEverything) {
  const std::vector<float> logits = Vocabulary(50257);
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  for (const int64_t k : {1, 40, 1024}) {
    const v1::TopLogits top = Top(logits, k);
    EXPECT_TRUE(std::equal(top.ids().begin(), top.ids().end(), ids.begin())) << k;
    EXPECT_EQ(top.ids_size(), k);
  }
}

}  // namespace
}  // namespace attention
