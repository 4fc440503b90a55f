#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/load/load_result.h"
#include "client/load/report.h"

namespace attention {
namespace {

using Json = nlohmann::json;

Json Seconds(absl::Duration duration) {
  return duration == absl::InfiniteDuration() ? Json() : Json(absl::ToDoubleSeconds(duration));
}

std::string TimeText(absl::Time time) { return absl::FormatTime(time, absl::UTCTimeZone()); }

Json OrNull(const auto& optional) { return optional.has_value() ? Json(*optional) : Json(); }

/// What there are too few values for is null.
Json LatencyJson(const Histogram& nanoseconds) {
  const auto ms = [](bool is_known, double ns) {
    return is_known ? Json(Milliseconds(ns)) : Json();
  };
  const bool has_any = nanoseconds.count() > 0;
  Json json = {{"count", nanoseconds.count()},
               {"mean", ms(has_any, nanoseconds.mean())},
               {"min", ms(has_any, static_cast<double>(nanoseconds.min()))},
               {"max", ms(has_any, static_cast<double>(nanoseconds.max()))},
               {"histogram", nanoseconds.Counts()}};
  for (const auto& [name, percent] : kQuantiles) {
    json[name] =
        ms(nanoseconds.IsEnoughFor(percent), static_cast<double>(nanoseconds.Percentile(percent)));
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
  return {{"slice_s", absl::ToDoubleSeconds(series.slice())}, {"slices", std::move(slices)}};
}

Json StabilityJson(const Stability& stability) {
  Json windows = Json::array();
  for (const StabilityWindow& window : stability.windows) {
    windows.push_back(
        {{"answers_per_s", window.answers_per_s}, {"latency_ms", OrNull(window.latency_ms)}});
  }
  return {{"window_s", Seconds(stability.window)},
          {"windows", std::move(windows)},
          {"stable", OrNull(stability.is_stable)},
          {"throughput_cv", stability.throughput_cv},
          {"latency_cv", stability.latency_cv}};
}

Json SloJson(const std::vector<SloCheck>& checks) {
  Json slo = Json::array();
  for (const SloCheck& check : checks) {
    slo.push_back({{"target", check.target.text},
                   {"limit", check.target.limit},
                   {"measured", OrNull(check.measured)},
                   {"unanswered", check.unanswered},
                   {"met", check.is_met}});
  }
  return slo;
}

Json VerificationJson(const LoadVerification& verification) {
  Json json = {{"agreed", verification.agreed()},
               {"wanted", verification.wanted},
               {"sampled", verification.sampled},
               {"identical", verification.identical},
               {"unchecked", verification.unchecked}};
  if (verification.unchecked > 0) {
    json["unchecked_text"] = verification.unchecked_text;
  }
  if (verification.reference.has_value()) {
    json["relative_l2"] = verification.reference->relative_l2;
    json["tolerance"] = verification.reference->tolerance;
  }
  return json;
}

void AddFailures(const Failures& failures, Json& json) {
  json["errors"] = json["errors_in_window"] = json["error_texts"] = json["error_latency_ms"] =
      Json::object();
  for (const auto& [code, failure] : failures) {
    json["errors"][code] = failure.count;
    json["errors_in_window"][code] = failure.in_window;
    json["error_texts"][code] = failure.first_text;
    if (failure.latency_ns.count() > 0) {
      json["error_latency_ms"][code] = LatencyJson(failure.latency_ns);
    }
  }
}

/// Adds the latencies that only some loads have.
void AddLatencies(const LoadResult& result, Json& json) {
  const std::pair<const char*, const Histogram&> latencies[] = {
      {"first_block_ms", result.first_message_ns},
      {"next_block_ms", result.message_gap_ns},
      {"token_ms", result.token_ns}};
  for (const auto& [key, latency_ns] : latencies) {
    if (latency_ns.count() > 0) {
      json[key] = LatencyJson(latency_ns);
    }
  }
  if (result.accounts > 0) {
    json["phases_ms"] = {{"receive", LatencyJson(result.phases.receive_ns)},
                         {"queue", LatencyJson(result.phases.queue_ns)},
                         {"compute", LatencyJson(result.phases.compute_ns)},
                         {"return", LatencyJson(result.phases.return_ns)}};
  }
}

Json ResultJson(const LoadResult& result) {
  const LoadRates rates = RatesOf(result);
  Json json = {{"started", TimeText(result.started)},
               {"window_s", Seconds(result.window)},
               {"answers", result.answers},
               {"tokens", result.tokens},
               {"request_bytes", result.request_bytes},
               {"answered_bytes", result.answered_bytes},
               {"prefills", result.prefills},
               {"prefill_tokens", result.prefill_tokens},
               {"cached_tokens", result.cached_tokens},
               {"accounts", result.accounts},
               {"batch_requests", result.batch_requests},
               {"requests_per_s", rates.requests_per_s},
               {"tokens_per_s", rates.tokens_per_s},
               {"gigabytes_per_s", rates.gigabytes_per_s},
               {"prefill_tokens_per_s", rates.prefill_tokens_per_s},
               {"requests_per_batch", rates.requests_per_batch},
               {"latency_ms", LatencyJson(result.latency_ns)},
               {"unfinished_ms", LatencyJson(result.unfinished_ns)},
               {"series", SeriesJson(result.series)},
               {"servers", result.servers},
               {"client_cpu_share", result.client_cpu_share},
               {"client_wait_share", result.client_wait_share},
               {"gave_up", result.gave_up},
               {"stopped", result.was_stopped}};
  if (result.pace.has_value()) {
    json.update({{"due", result.pace->due},
                 {"not_sent", result.pace->not_sent},
                 {"lag_ms", LatencyJson(result.pace->lag_ns)},
                 {"service_ms", LatencyJson(result.service_ns)},
                 {"offered_per_s", rates.offered_per_s},
                 {"sent_per_s", rates.sent_per_s},
                 {"goodput_per_s", rates.requests_per_s}});
  }
  AddLatencies(result, json);
  AddFailures(result.failures, json);
  return json;
}

/// The options that differ from level to level.
Json LevelOptions(const LoadOptions& options) {
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

Json LevelJson(const BenchLevel& level) {
  Json json = ResultJson(level.result);
  json.update({{"met", MeetsTargets(level)},
               {"client_warning", ClientWarning(level)},
               {"stability", StabilityJson(level.stability)},
               {"slo", SloJson(level.slo)},
               {"options", LevelOptions(level.options)}});
  if (const auto keeping_up = KeepingUpOf(level); keeping_up.has_value()) {
    json["kept_up"] = keeping_up->is_kept;
  }
  if (level.verification.has_value()) {
    json["verification"] = VerificationJson(*level.verification);
  }
  return json;
}

void AddSubject(const BenchSubject& subject, Json& json) {
  json.update({{"model", subject.model},
               {"request", subject.request},
               {"protocol", subject.protocol},
               {"stream", subject.is_streaming}});
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
}

/// The options that all levels share.
Json CommonOptions(const LoadOptions& options) {
  Json json = {{"server", options.connection.server},     {"connections", options.connections},
               {"retries", options.connection.retries},   {"warmup_s", Seconds(options.warmup)},
               {"duration_s", Seconds(options.duration)}, {"requests", options.requests},
               {"timeout_s", Seconds(options.timeout)},   {"seed", options.seed}};
  if (options.stability.has_value()) {
    json["stability"] = {{"percentage", options.stability->percentage},
                         {"percentile", OrNull(options.stability->percentile)},
                         {"max_trials", options.stability->max_trials},
                         {"required", options.stability->is_required}};
  }
  return json;
}

}  // namespace

Json ToJson(const BenchReport& report) {
  Json json = {
      {"format", kReportFormat},   {"succeeded", Succeeded(report)},
      {"text", ToText(report)},    {"started", TimeText(report.started)},
      {"command", report.command}, {"tags", report.tags},
      {"machine", report.machine}, {"options", CommonOptions(report.levels.front().options)}};
  AddSubject(report.subject, json["options"]);
  if (report.search.has_value()) {
    json["search"] = {{"highest_met", OrNull(report.search->highest_met)},
                      {"lowest_missed", OrNull(report.search->lowest_missed)}};
  }
  if (report.levels.size() > 1 || report.search.has_value()) {
    for (const BenchLevel& level : report.levels) {
      json["levels"].push_back(LevelJson(level));
    }
    return json;
  }
  Json only = LevelJson(report.levels.front());
  json["options"].update(only["options"]);
  only.erase("options");
  json.update(only);
  return json;
}

}  // namespace attention
