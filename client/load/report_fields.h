// What of a benchmark's result is in its JSON, said once for writing and reading.
#pragma once

#include <concepts>
#include <type_traits>

#include "client/load/bench_report.h"

namespace attention {

template <typename T, typename Plain>
concept Of = std::same_as<std::remove_const_t<T>, Plain>;

/// What is in the JSON of each struct, for a Writer and a Reader alike: io(key, member). Members
/// that are not always there: io.IfAny(key, member), and io.Has(key, optional), which says
/// whether the optional has a value now.
struct Fields {
  static void Visit(auto& io, Of<TimeSlice> auto& slice) {
    io("due", slice.due);
    io("not_sent", slice.not_sent);
    io("sent", slice.sent);
    io("answers", slice.answers);
    io("tokens", slice.tokens);
    io("errors", slice.errors);
    io("latency_ms", slice.latency_ns);
  }
  static void Visit(auto& io, Of<StabilityWindow> auto& window) {
    io("answers_per_s", window.answers_per_s);
    io("latency_ms", window.latency_ms);
  }
  static void Visit(auto& io, Of<Stability> auto& stability) {
    io("window_s", stability.window);
    io("windows", stability.windows);
    io("stable", stability.is_stable);
    io("throughput_cv", stability.throughput_cv);
    io("latency_cv", stability.latency_cv);
  }
  static void Visit(auto& io, Of<StabilityRule> auto& rule) {
    io("percentage", rule.percentage);
    io("percentile", rule.percentile);
    io("max_trials", rule.max_trials);
    io("required", rule.is_required);
  }
  static void Visit(auto& io, Of<LoadPhases> auto& phases) {
    io("send", phases.send_ns);
    io("queue", phases.queue_ns);
    io("compute", phases.compute_ns);
    io("receive", phases.receive_ns);
  }
  static void Visit(auto& io, Of<LoadVerification> auto& verification) {
    io("sampled", verification.sampled);
    io("identical", verification.identical);
    if (io.Has("relative_l2", verification.reference)) {
      io("relative_l2", verification.reference->relative_l2);
      io("tolerance", verification.reference->tolerance);
    }
  }
  static void Visit(auto& io, Of<SloCheck> auto& check) {
    io("target", check.target);
    io("measured", check.measured);
    io("met", check.is_met);
  }
  static void Visit(auto& io, Of<SearchVerdict> auto& verdict) {
    io("highest_met", verdict.highest_met);
    io("lowest_missed", verdict.lowest_missed);
  }
  static void Visit(auto& io, Of<DecodeOptions> auto& decode) {
    io("prefill", decode.prefill);
    io("steps", decode.steps);
    io("step_tokens", decode.step_tokens);
    io("cache_dtype", decode.cache_dtype);
  }
  static void Visit(auto& io, Of<BenchSubject> auto& subject) {
    io("model", subject.model);
    io("request", subject.request);
    io("protocol", subject.protocol);
    io("stream", subject.is_streaming);
    io.IfAny("lengths", subject.lengths);
    io.IfAny("causal", subject.causal);
    io.IfAny("decode", subject.decode);
  }
  /// What is the same at all levels.
  static void Visit(auto& io, Of<LoadOptions> auto& options) {
    io("server", options.connection.server);
    io("connections", options.connections);
    io("retries", options.connection.retries);
    io("warmup_s", options.warmup);
    io("warmup_requests", options.warmup_requests);
    io("duration_s", options.duration);
    io("requests", options.requests);
    io("timeout_s", options.timeout);
    io("seed", options.seed);
    io.IfAny("stability", options.stability);
  }
  static void VisitLevel(auto& io, Of<LoadOptions> auto& options) {
    if (!io.Has("rate_per_s", options.open_loop)) {
      io("concurrency", options.concurrency);
      return;
    }
    auto& arrivals = options.open_loop->arrivals;
    io("rate_per_s", arrivals.rate_per_s);
    io("arrivals", arrivals.arrivals);
    io("max_in_flight", options.open_loop->max_in_flight);
    if (io.Has("ramp_to_per_s", arrivals.ramp)) {
      io("ramp_to_per_s", arrivals.ramp->to_rate_per_s);
    }
    io.IfAny("schedule", arrivals.trace);
  }
  static void Visit(auto& io, Of<LoadResult> auto& result) {
    io("started", result.started);
    io("window_s", result.window);
    io("answers", result.answers);
    io("tokens", result.tokens);
    io("request_bytes", result.request_bytes);
    io("answered_bytes", result.answered_bytes);
    io("prefills", result.prefills);
    io("prefill_tokens", result.prefill_tokens);
    io("accounts", result.accounts);
    io("batch_requests", result.batch_requests);
    io("latency_ms", result.latency_ns);
    io("series", result.series);
    io("client_cpu_share", result.client_cpu_share);
    io("client_wait_share", result.client_wait_share);
    io("gave_up", result.gave_up);
    io("stopped", result.was_stopped);
    if (result.accounts > 0) {
      io("phases_ms", result.phases);
    }
    if (io.Has("due", result.pace)) {
      io("due", result.pace->due);
      io("not_sent", result.pace->not_sent);
      io("lag_ms", result.pace->lag_ns);
      io("service_ms", result.service_ns);
    }
    io.IfAny("first_block_ms", result.first_message_ns);
    io.IfAny("next_block_ms", result.message_gap_ns);
    io.IfAny("token_ms", result.token_ns);
    io.AllOf(result.failures);
  }
  static void Visit(auto& io, Of<BenchLevel> auto& level) {
    Visit(io, level.result);
    io("stability", level.stability);
    io("slo", level.slo);
    io.IfAny("verification", level.verification);
  }
  static void Visit(auto& io, Of<BenchReport> auto& report) {
    io("started", report.started);
    io("command", report.command);
    io("tags", report.tags);
    io("machine", report.machine);
    io.IfAny("search", report.search);
  }
};

}  // namespace attention
