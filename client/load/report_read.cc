#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/load/report.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

// Reading throws nlohmann::json::exception, or Wrong; ReadReport makes a status of it.

using Json = nlohmann::json;

class Wrong : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename T>
T OrThrow(absl::StatusOr<T> value) {
  if (!value.ok()) {
    throw Wrong(std::string(value.status().message()));
  }
  return *std::move(value);
}

absl::Time TimeOf(const Json& json) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, json.get<std::string>(), &time, &error)) {
    throw Wrong(absl::StrCat("started: ", error));
  }
  return time;
}

absl::Duration SecondsOf(const Json& json) {
  return json.is_null() ? absl::InfiniteDuration() : absl::Seconds(json.get<double>());
}

int64_t NanosecondsOf(const Json& milliseconds) {
  return std::llround(milliseconds.get<double>() * 1e6);
}

Histogram LatencyOf(const Json& json) {
  return OrThrow(Histogram::FromCounts(json.at("histogram").get<std::string>(),
                                       NanosecondsOf(json.at("min")), NanosecondsOf(json.at("max")),
                                       json.at("mean").get<double>() * 1e6));
}

/// Of a load that has it.
Histogram LatencyAt(const Json& json, const char* key) {
  return json.contains(key) ? LatencyOf(json.at(key)) : Histogram();
}

BenchSubject SubjectOf(const Json& options) {
  BenchSubject subject{.model = options.at("model"),
                       .request = options.at("request"),
                       .protocol = options.at("protocol"),
                       .lengths = options.value("lengths", ""),
                       .is_streaming = options.at("stream"),
                       .causal = {},
                       .decode = {}};
  if (options.contains("causal")) {
    subject.causal = options.at("causal").get<bool>();
  }
  if (options.contains("decode")) {
    const Json& decode = options.at("decode");
    subject.decode = DecodeOptions{.prefill = decode.at("prefill"),
                                   .steps = decode.at("steps"),
                                   .step_tokens = decode.at("step_tokens")};
    if (!v1::DataType_Parse(decode.at("cache_dtype").get<std::string>(),
                            &subject.decode->cache_dtype)) {
      throw Wrong("decode.cache_dtype: expected the name of a dtype");
    }
  }
  return subject;
}

ArrivalOptions ArrivalsOf(const Json& options) {
  ArrivalOptions arrivals{
      .rate_per_s = options.at("rate_per_s"),
      .arrivals = options.at("arrivals") == "poisson" ? Arrivals::kPoisson : Arrivals::kConstant,
      .seed = options.at("seed")};
  if (options.contains("ramp_to_per_s")) {
    arrivals.ramp = Ramp{.to_rate_per_s = options.at("ramp_to_per_s")};
  }
  if (options.contains("schedule")) {
    arrivals.trace = std::make_shared<const ArrivalTrace>(
        ArrivalTrace{.path = options.at("schedule"), .times = {}, .kinds = {}, .lengths = {}});
  }
  return arrivals;
}

StabilityRule RuleOf(const Json& json) {
  StabilityRule rule{.percentage = json.at("percentage"),
                     .percentile = {},
                     .max_trials = json.at("max_trials"),
                     .is_required = json.at("required")};
  if (!json.at("percentile").is_null()) {
    rule.percentile = json.at("percentile").get<double>();
  }
  return rule;
}

/// Of the common options and those of a level together.
LoadOptions OptionsOf(const Json& json) {
  LoadOptions options{.connection = {.server = json.at("server"), .retries = json.at("retries")},
                      .concurrency = json.value("concurrency", 1),
                      .connections = json.at("connections"),
                      .warmup = SecondsOf(json.at("warmup_s")),
                      .warmup_requests = json.at("warmup_requests"),
                      .duration = SecondsOf(json.at("duration_s")),
                      .requests = json.at("requests"),
                      .timeout = SecondsOf(json.at("timeout_s")),
                      .num_samples = 0,
                      .seed = json.at("seed")};
  if (json.contains("rate_per_s")) {
    options.open_loop =
        OpenLoopOptions{.arrivals = ArrivalsOf(json), .max_in_flight = json.at("max_in_flight")};
  }
  if (json.contains("stability")) {
    options.stability = RuleOf(json.at("stability"));
  }
  return options;
}

TimeSeries SeriesOf(const Json& json) {
  const absl::Duration slice = SecondsOf(json.at("slice_s"));
  if (slice <= absl::ZeroDuration() || json.at("slices").size() > TimeSeries::kMaxSlices) {
    throw Wrong(absl::StrCat("series: expected at most ", TimeSeries::kMaxSlices,
                             " slices that last, found ", json.at("slices").size(), " of ",
                             absl::FormatDuration(slice)));
  }
  TimeSeries series(slice);
  for (size_t i = 0; i < json.at("slices").size(); ++i) {
    const Json& from = json.at("slices")[i];
    // The middle, so that no rounding makes it the one before.
    series.At(slice * (static_cast<double>(i) + 0.5)) = {
        .due = from.at("due"),
        .not_sent = from.at("not_sent"),
        .sent = from.at("sent"),
        .answers = from.at("answers"),
        .tokens = from.at("tokens"),
        .errors = from.at("errors"),
        .latency_ns = LatencyOf(from.at("latency_ms"))};
  }
  return series;
}

Failures FailuresOf(const Json& json) {
  Failures failures;
  for (const auto& [code, count] : json.at("errors").items()) {
    failures[code] = {.count = count,
                      .first_text = json.at("error_texts").at(code),
                      .latency_ns = LatencyAt(json.at("error_latency_ms"), code.c_str())};
  }
  return failures;
}

LoadResult ResultOf(const Json& json) {
  LoadResult result;
  result.started = TimeOf(json.at("started"));
  result.window = SecondsOf(json.at("window_s"));
  result.answers = json.at("answers");
  result.tokens = json.at("tokens");
  result.request_bytes = json.at("request_bytes");
  result.answered_bytes = json.at("answered_bytes");
  result.prefills = json.at("prefills");
  result.prefill_tokens = json.at("prefill_tokens");
  result.accounts = json.at("accounts");
  result.batch_requests = json.at("batch_requests");
  const Json phases = json.value("phases_ms", Json::object());
  result.phases = {.send_ns = LatencyAt(phases, "send"),
                   .queue_ns = LatencyAt(phases, "queue"),
                   .compute_ns = LatencyAt(phases, "compute"),
                   .receive_ns = LatencyAt(phases, "receive")};
  result.latency_ns = LatencyOf(json.at("latency_ms"));
  result.service_ns = LatencyAt(json, "service_ms");
  result.first_message_ns = LatencyAt(json, "first_block_ms");
  result.message_gap_ns = LatencyAt(json, "next_block_ms");
  result.token_ns = LatencyAt(json, "token_ms");
  result.failures = FailuresOf(json);
  result.gave_up = json.at("gave_up");
  result.was_stopped = json.at("stopped");
  result.client_cpu_share = json.at("client_cpu_share");
  result.client_wait_share = json.at("client_wait_share");
  if (json.contains("due")) {
    result.pace = PaceTally{.due = json.at("due"),
                            .not_sent = json.at("not_sent"),
                            .lag_ns = LatencyAt(json, "lag_ms"),
                            .series = TimeSeries()};
  }
  result.series = SeriesOf(json.at("series"));
  return result;
}

Stability StabilityOf(const Json& json) {
  Stability stability;
  stability.window = SecondsOf(json.at("window_s"));
  for (const Json& window : json.at("windows")) {
    stability.windows.push_back(
        {.answers_per_s = window.at("answers_per_s"), .latency_ms = window.at("latency_ms")});
  }
  if (!json.at("stable").is_null()) {
    stability.is_stable = json.at("stable").get<bool>();
  }
  stability.throughput_cv = json.at("throughput_cv");
  stability.latency_cv = json.at("latency_cv");
  return stability;
}

LoadVerification VerificationOf(const Json& json) {
  LoadVerification verification{
      .reference = {}, .sampled = json.at("sampled"), .identical = json.at("identical")};
  if (json.contains("relative_l2")) {
    verification.reference =
        AnswerCheck{.relative_l2 = json.at("relative_l2"), .tolerance = json.at("tolerance")};
  }
  return verification;
}

/// `common`: the options of all levels.
BenchLevel LevelOf(const Json& json, Json common) {
  common.update(json.at("options"));
  BenchLevel level{.options = OptionsOf(common),
                   .result = ResultOf(json),
                   .verification = {},
                   .stability = StabilityOf(json.at("stability")),
                   .slo = {}};
  if (json.contains("verification")) {
    level.verification = VerificationOf(json.at("verification"));
  }
  for (const Json& check : json.at("slo")) {
    level.slo.push_back({.target = OrThrow(ParseSlo(check.at("target"))),
                         .measured = check.at("measured"),
                         .is_met = check.at("met")});
  }
  return level;
}

std::optional<double> NumberOrNothing(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional<double>(json.get<double>());
}

BenchReport ReportOf(const Json& json) {
  if (json.value("format", "") != kReportFormat) {
    throw Wrong(absl::StrCat("expected the format \"", kReportFormat, "\", found \"",
                             json.value("format", ""), "\""));
  }
  BenchReport report;
  report.subject = SubjectOf(json.at("options"));
  report.started = TimeOf(json.at("started"));
  report.command = json.at("command");
  report.tags = json.at("tags");
  report.machine = json.at("machine");
  if (!json.contains("levels")) {
    report.levels.push_back(LevelOf(json, json.at("options")));
  } else {
    for (const Json& level : json.at("levels")) {
      report.levels.push_back(LevelOf(level, json.at("options")));
    }
  }
  if (report.levels.empty()) {
    throw Wrong("expected at least one level, found none");
  }
  for (const SloCheck& check : report.levels.front().slo) {
    report.slo.push_back(check.target);
  }
  if (json.contains("search")) {
    report.search =
        SearchVerdict{.highest_met = NumberOrNothing(json.at("search").at("highest_met")),
                      .lowest_missed = NumberOrNothing(json.at("search").at("lowest_missed"))};
  }
  return report;
}

}  // namespace

absl::StatusOr<BenchReport> ReadReport(const Json& json) {
  try {
    return ReportOf(json);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("not a result of attend bench: ", error.what()));
  } catch (const Wrong& error) {
    return absl::InvalidArgumentError(absl::StrCat("not a result of attend bench: ", error.what()));
  }
}

}  // namespace attention
