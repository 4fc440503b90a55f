// Results of load whose numbers are known.
#pragma once

#include "client/load/report.h"

namespace attention {

/// 1000 answers of 1 to 1000 ms in 10 s.
inline BenchReport Report() {
  BenchReport report;
  report.subject.model = "demo";
  report.subject.request = "hidden states [1, 128, 512] FP32";
  report.command = "attend bench";
  report.machine = {{"cpu", "a cpu"}};
  BenchLevel& level = report.levels.emplace_back();
  level.options.connection.server = "127.0.0.1:8001";
  level.options.connection.retries = false;
  level.options.duration = absl::Seconds(10);
  LoadResult& result = level.result;
  result.started = absl::FromUnixSeconds(1'700'000'000);
  result.window = absl::Seconds(10);
  for (int64_t ms = 1; ms <= 1000; ++ms) {
    result.latency_ns.Record(ms * 1'000'000);
    TimeSlice& slice = result.series.At(absl::Milliseconds(9 * ms));
    ++slice.answers;
    slice.latency_ns.Record(ms * 1'000'000);
  }
  result.answers = result.accounts = 1000;
  result.tokens = 128'000;
  result.request_bytes = result.answered_bytes = 500'000'000;
  result.phases.queue_ns.Record(2'000'000);
  result.phases.compute_ns.Record(8'000'000);
  result.batch_requests = 1500;
  level.stability = JudgeStability(result.series, absl::Seconds(1), {});
  return report;
}

/// 100 requests a second are due, of which 10 are not sent; sent 0.1 ms late, refused after 2 ms.
inline BenchReport OpenReport() {
  BenchReport report = Report();
  BenchLevel& level = report.levels[0];
  level.options.open_loop = OpenLoopOptions{
      .arrivals = {.rate_per_s = 120.0, .arrivals = Arrivals::kPoisson}, .max_in_flight = 50};
  LoadResult& result = level.result;
  result.service_ns.Record(1'000'000);
  result.pace = PaceTally{.due = 1200, .not_sent = 100, .lag_ns = {}, .series = TimeSeries()};
  for (int i = 0; i < 1100; ++i) {
    result.pace->lag_ns.Record(100'000);
  }
  FailureTally& refused = result.failures["RESOURCE_EXHAUSTED"];
  refused = {.count = 100, .first_text = "queue full", .in_window = 100, .latency_ns = {}};
  refused.latency_ns.Record(2'000'000);
  refused.latency_ns.Record(2'000'000);
  result.failures[kNotSent] = {
      .count = 100, .first_text = "50 in flight", .in_window = 90, .latency_ns = {}};
  return report;
}

/// Two levels, of which the second missed its target.
inline BenchReport RangeReport() {
  BenchReport report = Report();
  report.slo = {*ParseSlo("p99=995ms")};
  BenchLevel level = report.levels[0];
  level.options.concurrency = 8;
  level.result.latency_ns.Record(2'000'000'000);
  for (int i = 0; i < 20; ++i) {
    level.result.latency_ns.Record(1'500'000'000);
  }
  report.levels.push_back(level);
  for (BenchLevel& checked : report.levels) {
    checked.slo = {CheckSlo(report.slo[0], checked.result)};
  }
  report.search = SearchVerdict{.highest_met = 1.0, .lowest_missed = 8.0};
  return report;
}

}  // namespace attention
