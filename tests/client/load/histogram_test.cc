#include "client/load/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace attention {
namespace {

constexpr double kPercents[] = {0.0, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0};

/// Latencies of all magnitudes, 1 ns to about 1000 s.
std::vector<int64_t> Values(uint64_t seed, int count) {
  std::mt19937_64 generator(seed);
  std::vector<int64_t> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(static_cast<int64_t>(generator() >> (24 + generator() % 40)));
  }
  return values;
}

Histogram Recorded(const std::vector<int64_t>& values) {
  Histogram histogram;
  for (const int64_t value : values) {
    histogram.Record(value);
  }
  return histogram;
}

void ExpectEqual(const Histogram& a, const Histogram& b) {
  EXPECT_EQ(a.count(), b.count());
  EXPECT_EQ(a.min(), b.min());
  EXPECT_EQ(a.max(), b.max());
  EXPECT_DOUBLE_EQ(a.mean(), b.mean());
  for (const double percent : kPercents) {
    EXPECT_EQ(a.Percentile(percent), b.Percentile(percent)) << percent;
  }
}

TEST(HistogramTest, IsZeroWhenEmpty) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.max(), 0);
  EXPECT_EQ(histogram.mean(), 0.0);
  EXPECT_EQ(histogram.Percentile(99.0), 0);
}

TEST(HistogramTest, PercentilesOfSmallValuesAreExact) {
  Histogram histogram;
  for (int value = 1; value <= 100; ++value) {
    histogram.Record(value);
  }
  EXPECT_EQ(histogram.Percentile(50.0), 50);
  EXPECT_EQ(histogram.Percentile(99.0), 99);
  EXPECT_EQ(histogram.Percentile(100.0), 100);
  EXPECT_EQ(histogram.Percentile(0.0), 1);
  EXPECT_DOUBLE_EQ(histogram.mean(), 50.5);
}

TEST(HistogramTest, PercentilesAreWithinOneIn128OfTheSortedValues) {
  std::vector<int64_t> values = Values(1, 20000);
  const Histogram histogram = Recorded(values);
  std::sort(values.begin(), values.end());
  for (const double percent : kPercents) {
    const size_t rank = std::max<size_t>(1, std::llround(percent * 10) * values.size() / 1000);
    const int64_t exact = values[rank - 1];
    EXPECT_GE(histogram.Percentile(percent), exact) << percent;
    EXPECT_LE(histogram.Percentile(percent) - exact, exact / 128) << percent;
  }
}

TEST(HistogramTest, RanksAreExact) {
  Histogram histogram;
  for (int value = 1; value <= 100; ++value) {
    histogram.Record(value);
  }
  EXPECT_EQ(histogram.Percentile(55.0), 55);
  EXPECT_EQ(histogram.Percentile(99.9), 100);
  for (const int thousands : {1, 2, 4, 8}) {
    Histogram rare;  // of each thousand one is slow
    for (int i = 0; i < 1000 * thousands; ++i) {
      rare.Record(i % 1000 == 0 ? 100 : 1);
    }
    EXPECT_EQ(rare.Percentile(99.9), 1) << thousands;
    EXPECT_EQ(rare.Percentile(99.91), 100) << thousands;
  }
}

TEST(HistogramTest, APercentileNeedsAsManyValuesAsItSplitsOff) {
  const struct {
    double percent;
    int count;
  } cases[] = {{50, 2}, {90, 10}, {95, 20}, {99, 100}, {99.9, 1000}, {99.99, 10000}, {100, 1}};
  for (const auto& [percent, count] : cases) {
    Histogram histogram;
    for (int i = 0; i < count; ++i) {
      EXPECT_FALSE(histogram.IsEnoughFor(percent)) << percent << " of " << i;
      histogram.Record(i);
    }
    EXPECT_TRUE(histogram.IsEnoughFor(percent)) << percent;
  }
}

TEST(HistogramTest, NeverReportsMoreThanTheMaximum) {
  Histogram histogram;
  histogram.Record(1'000'001);
  EXPECT_EQ(histogram.Percentile(50.0), 1'000'001);
  EXPECT_EQ(histogram.Percentile(100.0), 1'000'001);
}

TEST(HistogramTest, TakesTheLargestAndTheNegative) {
  Histogram histogram;
  histogram.Record(std::numeric_limits<int64_t>::max());
  histogram.Record(-5);
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.max(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(histogram.Percentile(100.0), std::numeric_limits<int64_t>::max());
}

TEST(HistogramTest, MergedEqualsRecordedTogether) {
  const std::vector<int64_t> first = Values(2, 500), second = Values(3, 700);
  std::vector<int64_t> all = first;
  all.insert(all.end(), second.begin(), second.end());
  Histogram merged = Recorded(first);
  merged.Merge(Recorded(second));
  ExpectEqual(merged, Recorded(all));
}

TEST(HistogramTest, MergeCommutesAndAssociates) {
  const Histogram a = Recorded(Values(4, 300)), b = Recorded(Values(5, 200)),
                  c = Recorded(Values(6, 100));
  Histogram ab = a, ba = b;
  ab.Merge(b);
  ba.Merge(a);
  ExpectEqual(ab, ba);
  Histogram ab_c = ab, bc = b, a_bc = a;
  ab_c.Merge(c);
  bc.Merge(c);
  a_bc.Merge(bc);
  ExpectEqual(ab_c, a_bc);
}

TEST(HistogramTest, MergingNothingChangesNothing) {
  const Histogram some = Recorded(Values(7, 50));
  Histogram left, right = some;
  left.Merge(some);
  right.Merge(Histogram());
  ExpectEqual(left, some);
  ExpectEqual(right, some);
}

TEST(HistogramTest, ItsCountsAreText) {
  Histogram small;
  EXPECT_EQ(small.Counts(), "");
  for (const int64_t value : {3, 3, 200, 1000}) {
    small.Record(value);
  }
  // 1000 is in the bucket from 1000 to 1003, which is a part of 512..1023 in 128 of 4.
  EXPECT_EQ(small.Counts(), "3:2 200:1 1003:1");
}

}  // namespace
}  // namespace attention
