#include "server/observability/metrics_text.h"

#include <limits>

#include "gmock/gmock.h"

namespace attention {
namespace {

TEST(MetricsTextTest, WritesHelpTypeAndSamples) {
  MetricsText text;
  text.Family("attend_requests_total", "counter", "Requests.");
  text.Sample({{"model", "gpt2"}, {"code", "OK"}}, 3);
  text.Sample({}, 0.25);
  EXPECT_EQ(text.text(),
            "# HELP attend_requests_total Requests.\n"
            "# TYPE attend_requests_total counter\n"
            "attend_requests_total{model=\"gpt2\",code=\"OK\"} 3\n"
            "attend_requests_total 0.25\n");
}

TEST(MetricsTextTest, LosesNoDigitOfALargeCounter) {
  MetricsText text;
  text.Counter("a_total", "A.", 9007199254740991.0);
  EXPECT_THAT(text.text(), ::testing::HasSubstr("\na_total 9007199254740991\n"));
}

TEST(MetricsTextTest, WritesWhatIsNoFiniteNumberAsPrometheusDoes) {
  MetricsText text;
  text.Gauge("a", "A.", std::numeric_limits<double>::infinity());
  text.Gauge("b", "B.", std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(text.text(), ::testing::HasSubstr("\na +Inf\n"));
  EXPECT_THAT(text.text(), ::testing::HasSubstr("\nb NaN\n"));
}

TEST(MetricsTextTest, EscapesLabels) {
  MetricsText text;
  text.Family("a", "gauge", "A.");
  text.Sample({{"l", "say \"x\\\"\nand go"}}, 1);
  EXPECT_THAT(text.text(), ::testing::HasSubstr("a{l=\"say \\\"x\\\\\\\"\\nand go\"} 1\n"));
}

TEST(MetricsTextTest, BucketsOfAHistogramAreCumulativeAndInTheUnit) {
  static constexpr int64_t kBounds[] = {1'000'000, 20'000'000};
  BucketCounts histogram(kBounds);
  for (const int64_t value : {1'000'000, 1'000'001, 20'000'000, 500'000'000}) {
    histogram.Observe(value);
  }
  MetricsText text;
  text.Family("a_seconds", "histogram", "A.");
  text.Sample({{"rpc", "Attend"}}, histogram, 1e9);
  EXPECT_EQ(text.text(),
            "# HELP a_seconds A.\n"
            "# TYPE a_seconds histogram\n"
            "a_seconds_bucket{rpc=\"Attend\",le=\"0.001\"} 1\n"
            "a_seconds_bucket{rpc=\"Attend\",le=\"0.02\"} 3\n"
            "a_seconds_bucket{rpc=\"Attend\",le=\"+Inf\"} 4\n"
            "a_seconds_sum{rpc=\"Attend\"} 0.522000001\n"
            "a_seconds_count{rpc=\"Attend\"} 4\n");
}

TEST(MetricsTextTest, AHistogramWithoutValuesHasNoSamples) {
  MetricsText text;
  text.Family("a_seconds", "histogram", "A.");
  text.Sample({}, BucketCounts(), 1e9);
  EXPECT_EQ(text.text(), "# HELP a_seconds A.\n# TYPE a_seconds histogram\n");
}

}  // namespace
}  // namespace attention
