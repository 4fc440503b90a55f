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

}  // namespace
}  // namespace attention
