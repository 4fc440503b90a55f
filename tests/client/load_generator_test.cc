// The load generator against the real server.
#include "client/load/load_generator.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/load/bench.h"
#include "client/load/encoded_load.h"
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

  absl::StatusOr<LoadReport> Run(bool is_streaming, const LoadOptions& options) {
    return RunBench(*client_, Mix(), NativeProtocol(is_streaming), options);
  }

  /// Without asking first whether the request is one.
  LoadResult Send(bool is_streaming, const LoadOptions& options) {
    const NativeProtocol protocol(is_streaming);
    const auto load = EncodeLoad(Mix(), protocol, {});
    EXPECT_THAT(load, IsOk());
    auto result = RunLoad(*load, options);
    EXPECT_THAT(result, IsOk());
    return *std::move(result);
  }

  InProcessServer server_{OneThread()};
  const std::unique_ptr<AttentionClient> client_ = *AttentionClient::Connect(
      {.connection = {.server = server_.address()}, .timeout = absl::Seconds(10)});
  const Tensor rows_ = SeededTensor(1, Dtype::kF32, {2, 5, 512});
  AttendRequest request_;
};

TEST_F(LoadGeneratorTest, AnswersAreCountedSampledAndChecked) {
  for (const bool is_streaming : {false, true}) {
    const auto report = Run(is_streaming, Options());
    ASSERT_THAT(report, IsOk());
    EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
    const LoadResult& result = report->result;
    EXPECT_GT(result.answers, 3);
    EXPECT_EQ(result.latency_ns.count(), result.answers);
    EXPECT_EQ(result.first_message_ns.count(), is_streaming ? result.latency_ns.count() : 0);
    EXPECT_GE(result.answered_bytes,
              result.latency_ns.count() * static_cast<int64_t>(rows_.size_bytes()));
    EXPECT_EQ(result.accounts, result.answers);
    EXPECT_GT(result.account.compute_ns, 0);
    EXPECT_GE(result.account.batch_requests, result.answers);
    EXPECT_EQ(result.tokens, 10 * result.answers);
    EXPECT_FALSE(result.pace.has_value());
    ASSERT_TRUE(report->verification.has_value());
    EXPECT_TRUE(report->verification->reference.has_value());
    EXPECT_THAT(report->verification->sampled, AllOf(Ge(1), Le(3)));
    EXPECT_EQ(report->verification->identical, report->verification->sampled);
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
    const LoadResult& result = report->result;
    ASSERT_TRUE(result.pace.has_value());
    EXPECT_EQ(result.pace->due, 40);
    EXPECT_EQ(result.pace->not_sent, 0);
    EXPECT_EQ(result.pace->lag_ns.count(), 40);
    // Of all that were due within the window, whenever they were answered.
    EXPECT_EQ(result.latency_ns.count(), 40);
    EXPECT_EQ(result.service_ns.count(), 40);
    EXPECT_GE(result.latency_ns.max(), result.service_ns.min());
    EXPECT_GE(result.latency_ns.mean(), result.service_ns.mean());
    EXPECT_EQ(result.first_message_ns.count(), is_streaming ? 40 : 0);
    EXPECT_EQ(report->verification->sampled, 3);
    EXPECT_EQ(report->verification->identical, 3);
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
    const auto report = RunBench(*client_, Mix(), OpenInferenceProtocol(), OpenOptions());
    ASSERT_THAT(report, IsOk());
    EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
    EXPECT_EQ(report->result.accounts, 0);
    ASSERT_TRUE(report->verification.has_value());
    EXPECT_TRUE(report->verification->reference.has_value());
    EXPECT_EQ(report->verification->sampled, 3);
  }
}

TEST_F(LoadGeneratorTest, LengthsAreMixedAndCheckedEach) {
  for (const bool is_open : {false, true}) {
    Workload longest;
    longest.request = request_;
    const auto mix = RequestMix::OfLengths(
        std::move(longest), {"uniform:1..5", {1, 2, 3, 4, 5}, {1.0, 1.0, 1.0, 1.0, 1.0}});
    ASSERT_THAT(mix, IsOk());
    const auto report =
        RunBench(*client_, *mix, NativeProtocol(false), is_open ? OpenOptions() : Options());
    ASSERT_THAT(report, IsOk());
    EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
    EXPECT_EQ(report->lengths, "uniform:1..5");
    EXPECT_GT(report->result.tokens, 2 * report->result.answers);
    EXPECT_LT(report->result.tokens, 10 * report->result.answers);
    EXPECT_GE(report->verification->sampled, 1);
  }
}

TEST_F(LoadGeneratorTest, AFirstRequestThatFailsEndsTheRun) {
  request_.model = "absent";
  EXPECT_THAT(Run(false, Options()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"absent\"")));
}

}  // namespace
}  // namespace attention
