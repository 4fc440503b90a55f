// Parameters that say when a request is computed.
#include "server/services/open_inference/infer_call.h"

#include <chrono>
#include <limits>

#include "gmock/gmock.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

TEST(InferCallTest, PrioritiesStandForClasses) {
  for (const auto& [number, priority] :
       {std::pair(0, Priority::kLow), std::pair(1, Priority::kHigh),
        std::pair(2, Priority::kNormal), std::pair(3, Priority::kLow),
        std::pair(9, Priority::kLow)}) {
    CallMetadata metadata;
    metadata.caller.max_priority = Priority::kHigh;
    metadata.request_class.priority = Priority::kLow;
    TimePoint deadline = TimePoint::max();
    InferParameters parameters;
    parameters.priority = static_cast<uint64_t>(number);
    ApplyParameters(parameters, metadata, deadline);
    EXPECT_EQ(metadata.request_class.priority, priority) << number;
    EXPECT_EQ(deadline, TimePoint::max());
  }
}

TEST(InferCallTest, APriorityIsNoHigherThanTheCallerMayHave) {
  CallMetadata metadata;
  TimePoint deadline = TimePoint::max();
  InferParameters parameters;
  parameters.priority = 1;
  ApplyParameters(parameters, metadata, deadline);
  EXPECT_EQ(metadata.request_class.priority, Priority::kNormal);
}

TEST(InferCallTest, TheEarlierDeadlineCounts) {
  CallMetadata metadata;
  const TimePoint begin = steady_clock::now();
  TimePoint deadline = begin + std::chrono::hours(1);
  ApplyParameters({.timeout_us = 1'000'000}, metadata, deadline);
  EXPECT_GE(deadline, begin + std::chrono::seconds(1));
  EXPECT_LE(deadline, steady_clock::now() + std::chrono::seconds(1));
  const TimePoint first = deadline;
  ApplyParameters({.timeout_us = 600'000'000}, metadata, deadline);
  EXPECT_EQ(deadline, first);
  ApplyParameters({.timeout_us = std::numeric_limits<int64_t>::max()}, metadata, deadline);
  EXPECT_EQ(deadline, first) << "a time that never comes";
}

}  // namespace
}  // namespace attention
