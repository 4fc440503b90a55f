#include "absl/strings/str_cat.h"
#include "client/load/load_rates.h"
#include "client/load/report.h"
#include "client/load/report_parts.h"

namespace attention {
namespace {

using Json = nlohmann::json;

Json SecondsOrNull(absl::Duration duration) {
  return duration == absl::InfiniteDuration() ? Json() : Json(absl::ToDoubleSeconds(duration));
}

/// What is the same at all levels.
Json OptionsJson(const BenchSubject& subject, const LoadOptions& options) {
  Json json = {{"server", options.connection.server},
               {"model", subject.model},
               {"request", subject.request},
               {"protocol", subject.protocol},
               {"stream", subject.is_streaming},
               {"connections", options.connections},
               {"retries", options.connection.retries},
               {"warmup_s", absl::ToDoubleSeconds(options.warmup)},
               {"warmup_requests", options.warmup_requests},
               {"duration_s", SecondsOrNull(options.duration)},
               {"requests", options.requests},
               {"timeout_s", absl::ToDoubleSeconds(options.timeout)},
               {"seed", options.seed}};
  if (!subject.lengths.empty()) {
    json["lengths"] = subject.lengths;
  }
  if (subject.causal.has_value()) {
    json["causal"] = *subject.causal;
  }
  if (subject.decode.has_value()) {
    json["decode"] = {{"prefill", subject.decode->prefill},
                      {"steps", subject.decode->steps},
                      {"step_tokens", subject.decode->step_tokens},
                      {"cache_dtype", v1::DataType_Name(subject.decode->cache_dtype)}};
  }
  if (options.stability.has_value()) {
    const StabilityRule& rule = *options.stability;
    json["stability"] = {
        {"percentage", rule.percentage},
        {"percentile", rule.percentile.has_value() ? Json(*rule.percentile) : Json()},
        {"max_trials", rule.max_trials},
        {"required", rule.is_required}};
  }
  return json;
}

Json LevelOptionsJson(const LoadOptions& options) {
  if (!options.open_loop.has_value()) {
    return {{"concurrency", options.concurrency}};
  }
  const ArrivalOptions& arrivals = options.open_loop->arrivals;
  Json json = {{"rate_per_s", arrivals.rate_per_s},
               {"arrivals", arrivals.arrivals == Arrivals::kPoisson ? "poisson" : "constant"},
               {"max_in_flight", options.open_loop->max_in_flight}};
  if (arrivals.ramp.has_value()) {
    json["ramp_to_per_s"] = arrivals.ramp->to_rate_per_s;
  }
  if (arrivals.trace != nullptr) {
    json["schedule"] = arrivals.trace->path;
  }
  return json;
}

void AddFailuresJson(const Failures& failures, Json& json) {
  json["errors"] = json["error_texts"] = json["error_latency_ms"] = Json::object();
  for (const auto& [code, failure] : failures) {
    json["errors"][code] = failure.count;
    json["error_texts"][code] = failure.first_text;
    if (failure.latency_ns.count() > 0) {
      json["error_latency_ms"][code] = LatencyJson(failure.latency_ns);
    }
  }
}

Json VerificationJson(const LoadVerification& verification) {
  Json json = {{"agreed", verification.agreed()},
               {"sampled", verification.sampled},
               {"identical", verification.identical}};
  if (verification.reference.has_value()) {
    json["relative_l2"] = verification.reference->relative_l2;
    json["tolerance"] = verification.reference->tolerance;
  }
  return json;
}

Json SeriesJson(const TimeSeries& series) {
  Json slices = Json::array();
  for (const TimeSlice& slice : series.slices()) {
    slices.push_back({{"due", slice.due},
                      {"not_sent", slice.not_sent},
                      {"sent", slice.sent},
                      {"answers", slice.answers},
                      {"tokens", slice.tokens},
                      {"errors", slice.errors},
                      {"latency_ms", LatencyJson(slice.latency_ns)}});
  }
  return {{"slice_s", absl::ToDoubleSeconds(series.slice())}, {"slices", slices}};
}

Json StabilityJson(const Stability& stability) {
  Json windows = Json::array();
  for (const StabilityWindow& window : stability.windows) {
    windows.push_back({{"answers_per_s", window.answers_per_s}, {"latency_ms", window.latency_ms}});
  }
  return {{"window_s", absl::ToDoubleSeconds(stability.window)},
          {"windows", windows},
          {"stable", stability.is_stable.has_value() ? Json(*stability.is_stable) : Json()},
          {"throughput_cv", stability.throughput_cv},
          {"latency_cv", stability.latency_cv}};
}

/// What only some loads have.
void AddLatencies(const LoadResult& result, Json& json) {
  if (result.accounts > 0) {
    const LoadPhases& phases = result.phases;
    json["phases_ms"] = {{"send", LatencyJson(phases.send_ns)},
                         {"queue", LatencyJson(phases.queue_ns)},
                         {"compute", LatencyJson(phases.compute_ns)},
                         {"receive", LatencyJson(phases.receive_ns)}};
  }
  if (result.pace.has_value()) {
    json["service_ms"] = LatencyJson(result.service_ns);
    json["lag_ms"] = LatencyJson(result.pace->lag_ns);
  }
  if (result.first_message_ns.count() > 0) {
    json["first_block_ms"] = LatencyJson(result.first_message_ns);
  }
  if (result.message_gap_ns.count() > 0) {
    json["next_block_ms"] = LatencyJson(result.message_gap_ns);
  }
  if (result.token_ns.count() > 0) {
    json["token_ms"] = LatencyJson(result.token_ns);
  }
}

void AddCounts(const LoadResult& result, Json& json) {
  const LoadRates rates = RatesOf(result);
  json.update({{"answers", result.answers},
               {"tokens", result.tokens},
               {"request_bytes", result.request_bytes},
               {"answered_bytes", result.answered_bytes},
               {"prefills", result.prefills},
               {"prefill_tokens", result.prefill_tokens},
               {"accounts", result.accounts},
               {"batch_requests", result.batch_requests},
               {"requests_per_s", rates.requests_per_s},
               {"tokens_per_s", rates.tokens_per_s},
               {"gigabytes_per_s", rates.gigabytes_per_s},
               {"prefill_tokens_per_s", rates.prefill_tokens_per_s},
               {"requests_per_batch", rates.requests_per_batch}});
  if (result.pace.has_value()) {
    json.update({{"due", result.pace->due},
                 {"not_sent", result.pace->not_sent},
                 {"offered_per_s", rates.offered_per_s},
                 {"sent_per_s", rates.sent_per_s},
                 {"goodput_per_s", rates.requests_per_s}});
  }
}

Json LevelJson(const BenchLevel& level) {
  const LoadResult& result = level.result;
  Json json = {{"started", absl::FormatTime(result.started, absl::UTCTimeZone())},
               {"window_s", absl::ToDoubleSeconds(result.window)},
               {"met", MeetsTargets(level)},
               {"latency_ms", LatencyJson(result.latency_ns)},
               {"series", SeriesJson(result.series)},
               {"stability", StabilityJson(level.stability)},
               {"client_cpu_share", result.client_cpu_share},
               {"client_wait_share", result.client_wait_share},
               {"client_warning", ClientWarning(level)},
               {"gave_up", result.gave_up},
               {"stopped", result.was_stopped},
               {"slo", Json::array()}};
  for (const SloCheck& check : level.slo) {
    json["slo"].push_back(
        {{"target", check.target.text}, {"measured", check.measured}, {"met", check.is_met}});
  }
  AddCounts(result, json);
  AddLatencies(result, json);
  AddFailuresJson(result.failures, json);
  if (level.verification.has_value()) {
    json["verification"] = VerificationJson(*level.verification);
  }
  return json;
}

}  // namespace

Json ToJson(const BenchReport& report) {
  Json json = {{"format", kReportFormat},
               {"started", absl::FormatTime(report.started, absl::UTCTimeZone())},
               {"command", report.command},
               {"tags", report.tags},
               {"machine", report.machine},
               {"options", OptionsJson(report.subject, report.levels.front().options)},
               {"succeeded", Succeeded(report)},
               {"levels", Json::array()}};
  for (const BenchLevel& level : report.levels) {
    Json level_json = LevelJson(level);
    level_json["options"] = LevelOptionsJson(level.options);
    json["levels"].push_back(std::move(level_json));
  }
  if (report.search.has_value()) {
    const auto& [met, missed] = *report.search;
    json["search"] = {{"highest_met", met.has_value() ? Json(*met) : Json()},
                      {"lowest_missed", missed.has_value() ? Json(*missed) : Json()}};
    return json;
  }
  if (report.levels.size() == 1) {
    Json only = std::move(json["levels"][0]);
    json.erase("levels");
    json["options"].update(only["options"]);
    only.erase("options");
    json.update(only);
  }
  return json;
}

}  // namespace attention
