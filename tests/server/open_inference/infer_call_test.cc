// Parameters that say when a request is computed.
#include "server/services/open_inference/infer_call.h"

#include <chrono>
#include <limits>

#include "gmock/gmock.h"

namespace attention {
namespace {

const TimePoint kArrival = TimePoint(std::chrono::hours(1));

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
    ApplyParameters(parameters, kArrival, metadata, deadline);
    EXPECT_EQ(metadata.request_class.priority, priority) << number;
    EXPECT_EQ(deadline, TimePoint::max());
  }
}

TEST(InferCallTest, APriorityIsNoHigherThanTheCallerMayHave) {
  CallMetadata metadata;
  TimePoint deadline = TimePoint::max();
  InferParameters parameters;
  parameters.priority = 1;
  ApplyParameters(parameters, kArrival, metadata, deadline);
  EXPECT_EQ(metadata.request_class.priority, Priority::kNormal);
}

TEST(InferCallTest, TheEarlierDeadlineCountsFromArrival) {
  CallMetadata metadata;
  TimePoint deadline = kArrival + std::chrono::hours(1);
  ApplyParameters({.timeout_us = 1'000'000}, kArrival, metadata, deadline);
  EXPECT_EQ(deadline, kArrival + std::chrono::seconds(1));
  ApplyParameters({.timeout_us = 600'000'000}, kArrival, metadata, deadline);
  EXPECT_EQ(deadline, kArrival + std::chrono::seconds(1));
  ApplyParameters({.timeout_us = std::numeric_limits<int64_t>::max()}, kArrival, metadata,
                  deadline);
  EXPECT_EQ(deadline, kArrival + std::chrono::seconds(1)) << "a time that never comes";
}

}  // namespace
}  // namespace attention
