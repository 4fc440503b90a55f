#include "client/cli/show/bench_watch.h"

#include "gmock/gmock.h"

namespace attention {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

TEST(BenchWatchTest, AnInterruptThatComesAtOnceWithTheFirstDoesNotEndTheProgram) {
  std::atomic<int64_t> first_ns = 0;
  EXPECT_EQ(TakeInterrupt(first_ns, 7 * kSecondNs), InterruptEffect::kEndMeasurement);
  EXPECT_EQ(TakeInterrupt(first_ns, 7 * kSecondNs), InterruptEffect::kNothing);
  EXPECT_EQ(TakeInterrupt(first_ns, 7 * kSecondNs + kSecondNs / 2 - 1), InterruptEffect::kNothing);
}

TEST(BenchWatchTest, AnInterruptHalfASecondAfterTheFirstEndsTheProgram) {
  std::atomic<int64_t> first_ns = 0;
  EXPECT_EQ(TakeInterrupt(first_ns, 7 * kSecondNs), InterruptEffect::kEndMeasurement);
  EXPECT_EQ(TakeInterrupt(first_ns, 7 * kSecondNs + kSecondNs / 2), InterruptEffect::kEndProgram);
}

TEST(BenchWatchTest, TheLineOfProgressIsShorterThanTheTerminalIsWide) {
  const LoadProgress progress = {.elapsed = absl::Seconds(2),
                                 .answers_per_s = 10.0,
                                 .p99_ms = 5.0,
                                 .errors = 1,
                                 .in_flight = 4};
  const std::string line = "2.0 s  10.0 answers/s  p99 5.000 ms  1 failed  4 in flight";
  EXPECT_EQ(ProgressLine(progress, 80), line);
  EXPECT_EQ(ProgressLine(progress, 30), line.substr(0, 29));
  EXPECT_EQ(ProgressLine(progress, 0), "");
}

}  // namespace
}  // namespace attention
