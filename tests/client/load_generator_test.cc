// The load generator against the real server.
#include "client/load/load_generator.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/load/bench.h"
#include "client/load/bench_runner.h"
#include "client/load/encoded_load.h"
#include "client/load/report.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Le;

ServerOptions OneThread() {
  ServerOptions options;
  options.threads = 1;
  return options;
}

/// A port that takes connections and never says a word.
class SilentListener {
 public:
  SilentListener() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_, generic, size), 0);
    EXPECT_EQ(listen(socket_, 8), 0);
    EXPECT_EQ(getsockname(socket_, generic, &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  ~SilentListener() { close(socket_); }
  SilentListener(const SilentListener&) = delete;
  SilentListener& operator=(const SilentListener&) = delete;

  const std::string& address() const { return address_; }

 private:
  const int socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string address_;
};

class LoadGeneratorTest : public ::testing::Test {
 protected:
  LoadGeneratorTest() {
    request_.model = "demo";
    request_.input = HiddenStatesInput{&rows_, {}, nullptr, {}};
  }

  LoadOptions Options() const {
    return {.connection = {.server = server_.address()},
            .concurrency = 3,
            .connections = 2,
            .warmup = absl::Milliseconds(50),
            .duration = absl::Milliseconds(400),
            .timeout = absl::Seconds(5),
            .num_samples = 3};
  }

  LoadOptions OpenOptions() const {
    LoadOptions options = Options();
    options.open_loop = OpenLoopOptions{.arrivals = {.rate_per_s = 100.0}};
    return options;
  }

  RequestMix Mix() const {
    Workload workload;
    workload.request = request_;
    return RequestMix(std::move(workload));
  }

  absl::StatusOr<BenchReport> Run(const RequestMix& mix, const Protocol& protocol,
                                  const LoadOptions& options) {
    const auto runner = MakeRequestRunner(*client_, mix, protocol, options);
    return runner.ok() ? RunBench(**runner, {.options = options}, {}) : runner.status();
  }
  absl::StatusOr<BenchReport> Run(bool is_streaming, const LoadOptions& options) {
    return Run(Mix(), NativeProtocol(is_streaming), options);
  }

  /// Without asking first whether the request is one.
  LoadResult Send(bool is_streaming, const LoadOptions& options) {
    const NativeProtocol protocol(is_streaming);
    const auto load = EncodeLoad(Mix(), protocol, {});
    EXPECT_THAT(load, IsOk());
    auto result = RunLoad(*load, options, control_);
    EXPECT_THAT(result, IsOk());
    return *std::move(result);
  }

  InProcessServer server_{OneThread()};
  const std::unique_ptr<AttentionClient> client_ = *AttentionClient::Connect(
      {.connection = {.server = server_.address()}, .timeout = absl::Seconds(10)});
  const Tensor rows_ = SeededTensor(1, Dtype::kF32, {2, 5, 512});
  AttendRequest request_;
  LoadControl control_;
};

TEST_F(LoadGeneratorTest, AnswersAreCountedSampledAndChecked) {
  for (const bool is_streaming : {false, true}) {
    const auto report = Run(is_streaming, Options());
    ASSERT_THAT(report, IsOk());
    EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
    const LoadResult& result = report->levels[0].result;
    EXPECT_GT(result.answers, 3);
    EXPECT_EQ(result.latency_ns.count(), result.answers);
    EXPECT_EQ(result.first_message_ns.count(), is_streaming ? result.latency_ns.count() : 0);
    EXPECT_GE(result.answered_bytes,
              result.latency_ns.count() * static_cast<int64_t>(rows_.size_bytes()));
    EXPECT_EQ(result.accounts, result.answers);
    EXPECT_EQ(result.phases.compute_ns.count(), result.answers);
    EXPECT_GT(result.phases.compute_ns.min(), 0);
    EXPECT_GE(result.batch_requests, result.answers);
    EXPECT_EQ(result.message_gap_ns.count() > 0, is_streaming);
    EXPECT_EQ(result.token_ns.count(), is_streaming ? result.answers : 0);
    EXPECT_EQ(result.tokens, 10 * result.answers);
    EXPECT_FALSE(result.pace.has_value());
    const std::optional<LoadVerification>& verification = report->levels[0].verification;
    ASSERT_TRUE(verification.has_value());
    EXPECT_TRUE(verification->reference.has_value());
    EXPECT_THAT(verification->sampled, AllOf(Ge(1), Le(3)));
    EXPECT_EQ(verification->identical, verification->sampled);
  }
}

TEST_F(LoadGeneratorTest, GivesUpWhenNothingButErrorsCome) {
  request_.model = "absent";
  for (const bool is_streaming : {false, true}) {
    LoadOptions options = Options();
    options.duration = absl::Seconds(60);
    const LoadResult result = Send(is_streaming, options);
    EXPECT_TRUE(result.gave_up);
    EXPECT_EQ(result.answers, 0);
    ASSERT_THAT(result.failures, ElementsAre(Key("NOT_FOUND")));
    const FailureTally& failure = result.failures.at("NOT_FOUND");
    EXPECT_GE(failure.count, 200);
    EXPECT_THAT(failure.first_text, HasSubstr("\"absent\""));
  }
}

TEST_F(LoadGeneratorTest, AnOpenLoopSendsAllThatIsDueAndCountsFromThen) {
  for (const bool is_streaming : {false, true}) {
    const auto report = Run(is_streaming, OpenOptions());
    ASSERT_THAT(report, IsOk());
    EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
    const LoadResult& result = report->levels[0].result;
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

TEST_F(LoadGeneratorTest, AnOpenLoopGoesOnWhenRequestsAreRefused) {
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

TEST_F(LoadGeneratorTest, WhatIsDueWhileTooManyAreUnderWayIsNotSent) {
  // Two connections that nobody accepts: the listening socket's queue takes them, so that every
  // call waits for its deadline.
  const SilentListener listener;
  LoadOptions options = OpenOptions();
  options.connection.server = listener.address();
  options.timeout = absl::Seconds(2);
  options.open_loop->max_in_flight = 2;
  const LoadResult result = Send(/*is_streaming=*/false, options);
  EXPECT_EQ(result.pace->due, 40);
  EXPECT_EQ(result.pace->not_sent, 40);  // the two of the warm-up are under way
  EXPECT_EQ(result.failures.at(kNotSent).count, 43);
  EXPECT_EQ(result.failures.at(kNotSent).first_text, "2 requests were under way (--max-in-flight)");
  EXPECT_EQ(result.failures.at("DEADLINE_EXCEEDED").count, 2);
}

TEST_F(LoadGeneratorTest, TheOpenInferenceProtocolIsCheckedAsTheNativeOneIs) {
  const Tensor query = SeededTensor(1, Dtype::kF32, {1, 3, 4, 8}),
               key = SeededTensor(2, Dtype::kF32, {1, 5, 2, 8});
  AttendRequest tokens = request_, bare;
  tokens.input = TokenIdsInput{{3, 1, 4, 1, 5, 9}, {3, 3}, {}};
  tokens.options.set_causal(true);
  bare.input = QueryKeyValueInput{&query, &key, &key};
  bare.options.set_window(2);
  for (const AttendRequest& request : {request_, tokens, bare}) {
    request_ = request;
    const auto report = Run(Mix(), OpenInferenceProtocol(), OpenOptions());
    ASSERT_THAT(report, IsOk());
    EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
    EXPECT_EQ(report->levels[0].result.accounts, 0);
    ASSERT_TRUE(report->levels[0].verification.has_value());
    EXPECT_TRUE(report->levels[0].verification->reference.has_value());
    EXPECT_EQ(report->levels[0].verification->sampled, 3);
  }
}

TEST_F(LoadGeneratorTest, LengthsAreMixedAndCheckedEach) {
  for (const bool is_open : {false, true}) {
    Workload longest;
    longest.request = request_;
    const auto mix = RequestMix::OfLengths(
        std::move(longest), {"uniform:1..5", {1, 2, 3, 4, 5}, {1.0, 1.0, 1.0, 1.0, 1.0}});
    ASSERT_THAT(mix, IsOk());
    const auto report = Run(*mix, NativeProtocol(false), is_open ? OpenOptions() : Options());
    ASSERT_THAT(report, IsOk());
    EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
    EXPECT_EQ(report->subject.lengths, "uniform:1..5");
    const BenchLevel& level = report->levels[0];
    EXPECT_GT(level.result.tokens, 2 * level.result.answers);
    EXPECT_LT(level.result.tokens, 10 * level.result.answers);
    EXPECT_GE(level.verification->sampled, 1);
  }
}

TEST_F(LoadGeneratorTest, AFirstRequestThatFailsEndsTheRun) {
  request_.model = "absent";
  EXPECT_THAT(Run(false, Options()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"absent\"")));
}

TEST_F(LoadGeneratorTest, AClosedLoopEndsAfterSoManyRequestsAndWarmsUpBySoMany) {
  LoadOptions options = Options();
  options.warmup = absl::ZeroDuration();
  options.duration = absl::InfiniteDuration();
  for (const int64_t warmup_requests : {0, 20}) {
    options.warmup_requests = warmup_requests;
    for (const int64_t requests : {1, 2, 50}) {
      options.requests = requests;
      const LoadResult result = Send(/*is_streaming=*/false, options);
      EXPECT_EQ(result.answers, requests) << warmup_requests;
      EXPECT_EQ(result.latency_ns.count(), requests);
      EXPECT_GT(result.window, absl::ZeroDuration());
      EXPECT_LT(result.window, absl::Seconds(8));
    }
  }
}

TEST_F(LoadGeneratorTest, AnOpenLoopEndsAfterSoManyRequestsAndWarmsUpBySoMany) {
  LoadOptions options = OpenOptions();
  options.warmup = absl::ZeroDuration();
  options.duration = absl::InfiniteDuration();
  options.warmup_requests = 5;
  options.requests = 12;
  const LoadResult result = Send(/*is_streaming=*/false, options);
  EXPECT_EQ(result.pace->due, 12);
  EXPECT_EQ(result.latency_ns.count(), 12);
  EXPECT_EQ(result.window, absl::Milliseconds(120));
}

TEST_F(LoadGeneratorTest, WhoStopsALoadGetsWhatItCounted) {
  for (const bool is_open : {false, true}) {
    LoadOptions options = is_open ? OpenOptions() : Options();
    options.duration = absl::Seconds(60);
    std::atomic<bool> stop = false;
    int64_t told = 0;
    control_.stop = &stop;
    control_.on_progress = [&](const LoadProgress& progress) {
      ++told;
      stop = progress.elapsed > absl::Milliseconds(400);
      EXPECT_EQ(progress.errors, 0);
    };
    const LoadResult result = Send(/*is_streaming=*/false, options);
    EXPECT_TRUE(result.was_stopped);
    EXPECT_GT(told, 1);
    EXPECT_GT(result.answers, 3);
    EXPECT_LT(result.window, absl::Seconds(8));
    EXPECT_EQ(result.latency_ns.count(), is_open ? result.pace->due : result.answers);
    EXPECT_TRUE(result.failures.empty());
  }
}

TEST_F(LoadGeneratorTest, ALoadThatSettlesEndsAndOneThatCannotUsesAllItsTrials) {
  for (const bool is_open : {false, true}) {
    LoadOptions options = is_open ? OpenOptions() : Options();
    options.duration = absl::Milliseconds(200);
    options.stability = StabilityRule{.percentage = 100'000.0, .max_trials = 40};
    const LoadResult settled = Send(/*is_streaming=*/false, options);
    EXPECT_GE(settled.window, absl::Milliseconds(600));
    EXPECT_LT(settled.window, absl::Seconds(4));
    EXPECT_FALSE(settled.was_stopped);
    options.stability = StabilityRule{.percentage = 1e-9, .max_trials = 4};
    EXPECT_EQ(Send(/*is_streaming=*/false, options).window, absl::Milliseconds(800));
  }
}

TEST_F(LoadGeneratorTest, AScheduleIsSentWithItsLengths) {
  ArrivalTrace trace{.path = "trace",
                     .times = {std::chrono::milliseconds(0), std::chrono::milliseconds(5),
                               std::chrono::milliseconds(20)},
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
  // Of the two sequences of each: all that came within the window, which ends with the last's
  // sending.
  EXPECT_LE(result.tokens, 2 * (5 + 2 + 5));
  EXPECT_EQ(result.window, absl::Milliseconds(20) + absl::Nanoseconds(1));
}

}  // namespace
}  // namespace attention
