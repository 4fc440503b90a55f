// The load generator against the real server.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "client/load/bench.h"
#include "client/load/bench_runner.h"
#include "client/load/load_generator.h"
#include "client/load/report.h"
#include "client/load/request_mix.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {

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
            .timeout = absl::Minutes(2),
            .num_samples = 3};
  }

  LoadOptions OpenOptions() const {
    LoadOptions options = Options();
    options.open_loop = OpenLoopOptions{.arrivals = {.rate_per_s = 100.0}};
    return options;
  }

  /// 40 requests that are due `step` after each other, whose answers count whenever they come.
  LoadOptions ScheduleOptions(std::chrono::nanoseconds step) const {
    ArrivalTrace trace{.path = "schedule"};
    for (int i = 0; i < 40; ++i) {
      trace.times.push_back(i * step);
    }
    LoadOptions options = Options();
    options.warmup = absl::ZeroDuration();
    options.duration = absl::InfiniteDuration();
    options.open_loop.emplace().arrivals.trace =
        std::make_shared<const ArrivalTrace>(std::move(trace));
    return options;
  }

  /// 40 requests by a closed loop.
  LoadOptions CountedOptions() const {
    LoadOptions options = Options();
    options.warmup = absl::ZeroDuration();
    options.duration = absl::InfiniteDuration();
    options.requests = 40;
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

  InProcessServer server_{{.threads = 1}};
  const std::unique_ptr<AttentionClient> client_ = *AttentionClient::Connect(
      {.connection = {.server = server_.address()}, .timeout = absl::Minutes(2)});
  const Tensor rows_ = SeededTensor(1, Dtype::kF32, {2, 5, 512});
  AttendRequest request_;
  LoadControl control_;
};

}  // namespace attention
