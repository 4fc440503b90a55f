// What open loops alone do.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "tests/client/load/load_generator_fixture.h"
#include "tests/support/silent_listener.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Key;
using ::testing::Le;

using OpenLoopTest = LoadGeneratorTest;

TEST_F(OpenLoopTest, AnOpenLoopSendsAllThatIsDueAndCountsFromThen) {
  for (const bool is_streaming : {false, true}) {
    const auto report = Run(is_streaming, OpenOptions());
    ASSERT_THAT(report, IsOk());
    const LoadResult& result = report->levels[0].result;
    EXPECT_THAT(result.failures, ElementsAre());
    ASSERT_TRUE(result.pace.has_value());
    EXPECT_EQ(result.pace->due, 40);
    EXPECT_EQ(result.pace->not_sent, 0);
    EXPECT_EQ(result.pace->lag_ns.count(), 40);
    // Of all that were due within the window, whenever they were answered.
    EXPECT_EQ(result.latency_ns.count(), 40);
    EXPECT_EQ(result.service_ns.count(), 40);
    EXPECT_GT(result.client_cpu_share, 0.0);
    EXPECT_GE(result.latency_ns.max(), result.service_ns.min());
    EXPECT_GE(result.latency_ns.mean(), result.service_ns.mean());
    EXPECT_EQ(result.first_message_ns.count(), is_streaming ? 40 : 0);
    EXPECT_EQ(report->levels[0].verification->sampled, 3);
    EXPECT_EQ(report->levels[0].verification->identical, 3);
    int64_t due = 0, sent = 0, latencies = 0;
    for (const TimeSlice& slice : result.series.slices()) {
      due += slice.due;
      sent += slice.sent;
      latencies += slice.latency_ns.count();
    }
    EXPECT_EQ(due, 40);
    EXPECT_LE(sent, 40);
    EXPECT_EQ(latencies, 40);
  }
}

TEST_F(OpenLoopTest, EachCallHasARecord) {
  LoadOptions options = OpenOptions();
  EXPECT_TRUE(Send(/*is_streaming=*/false, options).records.empty()) << "nobody asked";
  options.keeps_records = true;
  for (const bool is_streaming : {false, true}) {
    const LoadResult result = Send(is_streaming, options);
    ASSERT_EQ(result.records.size(), 45u) << "warm-up included";
    int64_t num_measured = 0;
    int64_t longest_ns = 0;
    for (const CallRecord& record : result.records) {
      EXPECT_EQ(record.code, absl::StatusCode::kOk);
      EXPECT_EQ(record.is_measured, record.due_ns >= 0);
      EXPECT_EQ(record.due_ns % 10'000'000, 0) << "100 a second";
      EXPECT_GE(record.lag_ns, 0);
      EXPECT_GT(record.latency_ns, record.lag_ns + record.compute_ns);
      EXPECT_EQ(record.first_message_ns > 0, is_streaming);
      EXPECT_GT(record.batch_id, 0u);
      num_measured += record.is_measured ? 1 : 0;
      longest_ns = std::max(longest_ns, record.is_measured ? record.latency_ns : 0);
    }
    EXPECT_EQ(num_measured, result.latency_ns.count());
    EXPECT_EQ(longest_ns, result.latency_ns.max());
  }
}

TEST_F(OpenLoopTest, AFailureHasARecordToo) {
  request_.model = "absent";
  LoadOptions options = OpenOptions();
  options.keeps_records = true;
  const LoadResult result = Send(/*is_streaming=*/false, options);
  ASSERT_EQ(result.records.size(), 45u);
  EXPECT_EQ(result.records.front().code, absl::StatusCode::kNotFound);
  EXPECT_GT(result.records.front().latency_ns, 0);
}

TEST_F(OpenLoopTest, AnOpenLoopGoesOnWhenRequestsAreRefused) {
  request_.model = "absent";
  const LoadResult result = Send(/*is_streaming=*/false, OpenOptions());
  EXPECT_FALSE(result.gave_up);
  EXPECT_EQ(result.answers, 0);
  ASSERT_THAT(result.failures, ElementsAre(Key("NOT_FOUND")));
  const FailureTally& failure = result.failures.at("NOT_FOUND");
  EXPECT_EQ(failure.count, 45);  // warm-up included
  EXPECT_EQ(failure.latency_ns.count(), 40);
  EXPECT_EQ(result.latency_ns.count(), 0);
}

TEST_F(OpenLoopTest, WhatIsDueWhileTooManyAreUnderWayIsNotSent) {
  // Two connections that nobody accepts: the listening socket's queue takes them, so that every
  // call waits for its deadline.
  const SilentListener listener;
  LoadOptions options = ScheduleOptions(std::chrono::nanoseconds(0));
  options.connection.server = listener.address();
  options.timeout = absl::Seconds(2);
  options.open_loop->max_in_flight = 2;
  const LoadResult result = Send(/*is_streaming=*/false, options);
  EXPECT_EQ(result.pace->due, 40);
  EXPECT_EQ(result.pace->not_sent, 38);
  EXPECT_EQ(result.failures.at(kNotSent).count, 38);
  EXPECT_EQ(result.failures.at(kNotSent).in_window, 38);
  EXPECT_EQ(result.failures.at(kNotSent).first_text, "2 requests were in flight (--max-in-flight)");
  EXPECT_EQ(result.failures.at("DEADLINE_EXCEEDED").count, 2);
}

TEST_F(OpenLoopTest, AnOpenLoopEndsAfterSoManyRequestsThatAreDueAfterItsWarmup) {
  LoadOptions options = OpenOptions();
  options.warmup = absl::Milliseconds(50);
  options.duration = absl::InfiniteDuration();
  options.requests = 12;
  const LoadResult result = Send(/*is_streaming=*/false, options);
  EXPECT_EQ(result.pace->due, 12);
  EXPECT_EQ(result.latency_ns.count(), 12);
  // The window ends with the last answer. Answers to the five requests of the warm-up may fall into
  // it too.
  EXPECT_THAT(result.answers, AllOf(Ge(12), Le(17)));
  EXPECT_GE(result.window, absl::Milliseconds(120));
}

TEST_F(OpenLoopTest, AScheduleIsSentWithItsLengths) {
  ArrivalTrace trace{.path = "trace",
                     .times = {std::chrono::milliseconds(0), std::chrono::milliseconds(5),
                               std::chrono::milliseconds(1000)},
                     .kinds = {1, 0, 1},
                     .lengths = {"schedule:trace", {2, 5}, {1.0, 2.0}}};
  Workload longest;
  longest.request = request_;
  const auto mix = RequestMix::OfLengths(std::move(longest), trace.lengths);
  ASSERT_THAT(mix, IsOk());
  LoadOptions options = OpenOptions();
  options.warmup = absl::ZeroDuration();
  options.duration = absl::InfiniteDuration();
  options.open_loop->arrivals.trace = std::make_shared<const ArrivalTrace>(std::move(trace));
  const auto report = Run(*mix, NativeProtocol(false), options);
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
  const LoadResult& result = report->levels[0].result;
  EXPECT_EQ(result.pace->due, 3);
  EXPECT_EQ(result.latency_ns.count(), 3);
  // Of the two sequences of each: the window ends with the last answer.
  EXPECT_EQ(result.answers, 3);
  EXPECT_EQ(result.tokens, 2 * (5 + 2 + 5));
  EXPECT_GT(result.window, absl::Seconds(1));
  EXPECT_EQ(result.pace->span, absl::Seconds(1) + absl::Nanoseconds(1));
}

TEST_F(OpenLoopTest, AScheduleOfOneMomentHasAnswersAndARate) {
  ArrivalTrace trace{.path = "burst", .times = std::vector(4, std::chrono::nanoseconds(0))};
  LoadOptions options = OpenOptions();
  options.warmup = absl::ZeroDuration();
  options.duration = absl::InfiniteDuration();
  options.num_samples = 0;
  options.open_loop->arrivals.trace = std::make_shared<const ArrivalTrace>(std::move(trace));
  const LoadResult result = Send(/*is_streaming=*/false, options);
  EXPECT_EQ(result.answers, 4);
  EXPECT_GT(result.window, absl::Microseconds(10));
  EXPECT_DOUBLE_EQ(RatesOf(result).offered_per_s, RatesOf(result).requests_per_s);
  request_.model = "absent";
  const LoadResult failed = Send(/*is_streaming=*/false, options);
  EXPECT_EQ(failed.failures.at("NOT_FOUND").latency_ns.count(), 4);
  EXPECT_GT(failed.window, absl::Microseconds(10)) << "until the last failure";
}

TEST_F(OpenLoopTest, AScheduleThatIsCutShortEndsThere) {
  ArrivalTrace trace{.path = "trace",
                     .times = {std::chrono::milliseconds(0), std::chrono::milliseconds(10),
                               std::chrono::milliseconds(30), std::chrono::hours(1)}};
  LoadOptions options = OpenOptions();
  options.warmup = absl::ZeroDuration();
  options.open_loop->arrivals.trace = std::make_shared<const ArrivalTrace>(std::move(trace));
  EXPECT_EQ(Send(/*is_streaming=*/false, options).window, options.duration);
  options.duration = absl::InfiniteDuration();
  options.requests = 2;
  const LoadResult result = Send(/*is_streaming=*/false, options);
  EXPECT_EQ(result.answers, 2);
  EXPECT_GE(result.window, absl::Milliseconds(30));
}

}  // namespace
}  // namespace attention
