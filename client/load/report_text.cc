#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/load/load_result.h"
#include "client/load/report.h"

namespace attention {
namespace {

std::string ArrivalsText(const ArrivalOptions& arrivals) {
  if (arrivals.trace != nullptr) {
    return absl::StrFormat("open loop of the %d requests of %s", arrivals.trace->times.size(),
                           arrivals.trace->path);
  }
  const char* const how = arrivals.arrivals == Arrivals::kPoisson ? "poisson" : "constant";
  if (arrivals.ramp.has_value()) {
    return absl::StrFormat("open loop of %.6g to %.6g requests/s, %s arrivals", arrivals.rate_per_s,
                           arrivals.ramp->to_rate_per_s, how);
  }
  return absl::StrFormat("open loop of %.6g requests/s, %s arrivals", arrivals.rate_per_s, how);
}

std::string UnitOf(const BenchReport& report) {
  return report.levels.front().options.open_loop.has_value() ? "requests/s"
         : report.subject.decode.has_value()                 ? "sessions"
                                                             : "in flight";
}

/// "mean 1.250  p50 1.199  p90 ...  p99.99 ...  max 9.811 ms".
std::string LatencyText(const Histogram& nanoseconds) {
  std::string text = absl::StrFormat("mean %.3f", Milliseconds(nanoseconds.mean()));
  for (const Quantile& quantile : kQuantiles) {
    absl::StrAppendFormat(&text, "  %s %.3f", quantile.name,
                          Milliseconds(nanoseconds.Percentile(quantile.percent)));
  }
  absl::StrAppendFormat(&text, "  max %.3f ms", Milliseconds(nanoseconds.max()));
  return text;
}

/// Whether there are values enough for a percentile to be more than one of them: 1 / (1 - q).
bool IsBackedUp(const Histogram& values, double percent) {
  return static_cast<double>(values.count()) * (100.0 - percent) >= 100.0 - 1e-9;
}

/// "demo, hidden states [1, 128, 512] FP32, causal, streamed".
std::string SubjectText(const BenchSubject& subject) {
  return absl::StrCat(subject.model.empty() ? "" : subject.model + ", ", subject.request,
                      subject.causal.value_or(false) ? ", causal" : "",
                      subject.is_streaming && !subject.decode.has_value() ? ", streamed" : "",
                      subject.protocol == "oip" ? ", by the Open Inference Protocol" : "");
}

/// "closed loop of 4", "open loop of 100 requests/s, poisson arrivals", "8 sessions".
std::string LoadText(const BenchSubject& subject, const LoadOptions& options) {
  if (options.open_loop.has_value()) {
    return ArrivalsText(options.open_loop->arrivals);
  }
  if (subject.decode.has_value()) {
    return absl::StrFormat("%d session%s", options.concurrency,
                           options.concurrency == 1 ? "" : "s");
  }
  return absl::StrFormat("closed loop of %d", options.concurrency);
}

/// "NAME        value" lines.
class ReportLines {
 public:
  void Add(const char* name, const std::string& value) {
    absl::StrAppendFormat(&text_, "%-11s %s\n", name, value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// A line or two for each kind of failure, and one when the run ended early.
void AddFailures(const LoadResult& result, ReportLines& lines) {
  for (const auto& [code, failure] : result.failures) {
    lines.Add("failed", absl::StrCat(failure.count, " x ", code, ": ", failure.first_text));
    if (failure.latency_ns.count() > 0) {
      lines.Add("", absl::StrCat("after ", LatencyText(failure.latency_ns)));
    }
  }
  if (result.gave_up) {
    lines.Add("stopped", "early, because nothing but errors came");
  }
  if (result.was_stopped) {
    lines.Add("stopped", "early, by hand");
  }
}

std::string VerificationText(const LoadVerification& verification) {
  std::string text;
  if (verification.reference.has_value()) {
    text = absl::StrFormat("%s with the reference: relative L2 %.1e (tolerance %.1e); ",
                           verification.reference->agreed() ? "agrees" : "DISAGREES",
                           verification.reference->relative_l2, verification.reference->tolerance);
  }
  absl::StrAppendFormat(&text, "%d of %d samples bit-identical", verification.identical,
                        verification.sampled);
  return text;
}

/// "p99=50ms met: 12.300 ms", "errors=1% MISSED: 2.50%".
std::string SloText(const SloCheck& check) {
  const std::string measured = check.target.of == SloTarget::Of::kErrors
                                   ? absl::StrFormat("%.3g%%", 100.0 * check.measured)
                                   : absl::StrFormat("%.3f ms", check.measured);
  return absl::StrCat(check.target.text, check.is_met ? " met: " : " MISSED: ", measured);
}

/// "120 requests/s is the highest level found that meets p99=50ms (126 missed)".
std::string SearchText(const BenchReport& report) {
  const SearchVerdict& verdict = *report.search;
  const std::string targets = absl::StrJoin(
      report.slo, ", ",
      [](std::string* out, const SloTarget& target) { absl::StrAppend(out, target.text); });
  const std::string missed = verdict.lowest_missed.has_value()
                                 ? absl::StrFormat("%.6g missed", *verdict.lowest_missed)
                                 : "none missed";
  if (!verdict.highest_met.has_value()) {
    return absl::StrCat("NO level meets ", targets, " (", missed, ")");
  }
  return absl::StrFormat("%.6g %s is the highest level found that meets %s (%s)",
                         *verdict.highest_met, UnitOf(report), targets, missed);
}

/// One line for each latency, under the names of the quantiles.
class LatencyTable {
 public:
  LatencyTable() {
    absl::StrAppendFormat(&text_, "%-11s %10s", "ms", "mean");
    for (const Quantile& quantile : kQuantiles) {
      absl::StrAppendFormat(&text_, " %10s", quantile.name);
    }
    absl::StrAppendFormat(&text_, " %10s\n", "max");
  }

  void Add(const char* name, const Histogram& nanoseconds) {
    if (nanoseconds.count() == 0) {
      return;
    }
    absl::StrAppendFormat(&text_, "%-11s %10.3f", name, Milliseconds(nanoseconds.mean()));
    for (const Quantile& quantile : kQuantiles) {
      const std::string value =
          absl::StrFormat("%.3f", Milliseconds(nanoseconds.Percentile(quantile.percent)));
      absl::StrAppendFormat(&text_, " %10s",
                            IsBackedUp(nanoseconds, quantile.percent) ? value : "-");
    }
    absl::StrAppendFormat(&text_, " %10.3f\n", Milliseconds(nanoseconds.max()));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string WhereText(const LoadOptions& options) {
  return absl::StrFormat("on %d connection%s to %s", options.connections,
                         options.connections == 1 ? "" : "s", options.connection.server);
}

void AddCounts(const BenchReport& report, const BenchLevel& level, ReportLines& lines) {
  const LoadResult& result = level.result;
  const LoadRates rates = RatesOf(result);
  if (result.pace.has_value()) {
    lines.Add("rate", absl::StrFormat("offered %.1f/s   sent %.1f/s   goodput %.1f/s",
                                      rates.offered_per_s, rates.sent_per_s, rates.requests_per_s));
  }
  const std::string what =
      report.subject.decode.has_value()
          ? absl::StrFormat("%d steps and %d prompts", result.answers, result.prefills)
          : absl::StrCat(result.answers);
  lines.Add("answers",
            absl::StrFormat("%s in %.1f s, %d failed", what, absl::ToDoubleSeconds(result.window),
                            NumFailures(result.failures)));
  std::string throughput =
      absl::StrFormat("%.1f %s/s   %.0f tokens/s   %.3f GB/s", rates.requests_per_s,
                      report.subject.decode.has_value() ? "steps" : "requests", rates.tokens_per_s,
                      rates.gigabytes_per_s);
  if (report.subject.decode.has_value()) {
    absl::StrAppendFormat(&throughput, "   %.0f tokens/s of prompts", rates.prefill_tokens_per_s);
  }
  lines.Add("throughput", throughput);
}

std::string LatenciesText(const BenchReport& report, const LoadResult& result) {
  const bool is_decode = report.subject.decode.has_value();
  LatencyTable table;
  table.Add(is_decode ? "step" : "latency", result.latency_ns);
  table.Add(is_decode ? "first token" : "first block", result.first_message_ns);
  table.Add("next block", result.message_gap_ns);
  table.Add("per token", result.token_ns);
  table.Add("service", result.service_ns);
  if (result.pace.has_value()) {
    table.Add("sent late", result.pace->lag_ns);
  }
  table.Add("  send", result.phases.send_ns);
  table.Add("  queue", result.phases.queue_ns);
  table.Add("  compute", result.phases.compute_ns);
  table.Add("  receive", result.phases.receive_ns);
  return table.text();
}

std::string StabilityText(const BenchLevel& level) {
  const Stability& stability = level.stability;
  std::string text =
      absl::StrFormat("throughput varies by %.1f%%, latency by %.1f%%, over %d parts of %s",
                      100.0 * stability.throughput_cv, 100.0 * stability.latency_cv,
                      stability.windows.size(), absl::FormatDuration(stability.window));
  if (level.options.stability.has_value()) {
    absl::StrAppendFormat(&text, "; %s (%.4g%%)",
                          stability.is_stable.value_or(false) ? "stable" : "NOT STABLE",
                          level.options.stability->percentage);
  }
  return text;
}

std::string ClientText(const BenchLevel& level) {
  const std::string warning = ClientWarning(level);
  return absl::StrFormat("%.0f%% of one core%s", 100.0 * level.result.client_cpu_share,
                         warning.empty() ? "" : ": " + warning);
}

/// What is to be said of a level beyond its counts and latencies.
void AddRemarks(const BenchLevel& level, ReportLines& lines) {
  const LoadRates rates = RatesOf(level.result);
  if (level.result.accounts > 0) {
    lines.Add("server", absl::StrFormat("%.1f requests per batch", rates.requests_per_batch));
  }
  if (level.stability.windows.size() > 1) {
    lines.Add("stability", StabilityText(level));
  }
  lines.Add("client", ClientText(level));
  if (level.verification.has_value()) {
    lines.Add("verified", VerificationText(*level.verification));
  }
  for (const SloCheck& check : level.slo) {
    lines.Add("target", SloText(check));
  }
  AddFailures(level.result, lines);
}

std::string OneLevelText(const BenchReport& report) {
  const BenchLevel& level = report.levels.front();
  ReportLines head, remarks;
  head.Add(report.subject.decode.has_value() ? "decode" : "request", SubjectText(report.subject));
  head.Add("load",
           absl::StrCat(LoadText(report.subject, level.options), ", ", WhereText(level.options)));
  AddCounts(report, level, head);
  AddRemarks(level, remarks);
  return absl::StrCat(head.text(), LatenciesText(report, level.result), remarks.text());
}

std::string RemarkText(const BenchLevel& level) {
  std::vector<std::string> remarks;
  for (const SloCheck& check : level.slo) {
    if (!check.is_met) {
      remarks.push_back(absl::StrCat("missed ", check.target.text));
    }
  }
  if (level.options.stability.has_value() && !level.stability.is_stable.value_or(false)) {
    remarks.push_back("not stable");
  }
  if (!ClientWarning(level).empty()) {
    remarks.push_back("client?");
  }
  if (level.verification.has_value() && !level.verification->agreed()) {
    remarks.push_back("WRONG");
  }
  return remarks.empty() ? "" : absl::StrCat("  ", absl::StrJoin(remarks, ", "));
}

std::string LevelsText(const BenchReport& report) {
  const bool is_open = report.levels.front().options.open_loop.has_value();
  std::string text = absl::StrFormat(
      "%10s %11s %11s %9s %9s %9s %9s %9s %7s  %s\n", is_open ? "rate" : "in flight", "answers/s",
      "tokens/s", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms", "failed", "remarks");
  for (const BenchLevel& level : report.levels) {
    const LoadRates rates = RatesOf(level.result);
    const Histogram& latency = level.result.latency_ns;
    const auto ms = [&](double percent) {
      return IsBackedUp(latency, percent)
                 ? absl::StrFormat("%.3f", Milliseconds(latency.Percentile(percent)))
                 : "-";
    };
    absl::StrAppendFormat(&text, "%10.6g %11.1f %11.0f %9s %9s %9s %9s %9.3f %7d%s\n",
                          LevelValue(level.options), rates.requests_per_s, rates.tokens_per_s,
                          ms(50), ms(90), ms(99), ms(99.9), Milliseconds(latency.max()),
                          NumFailures(level.result.failures), RemarkText(level));
  }
  return text;
}

/// Of the levels that have something to say.
std::string ManyLevelsText(const BenchReport& report) {
  ReportLines head, tail;
  head.Add(report.subject.decode.has_value() ? "decode" : "request", SubjectText(report.subject));
  head.Add("load",
           absl::StrFormat("%d levels of %s, %s", report.levels.size(),
                           report.levels.front().options.open_loop.has_value() ? "an open loop"
                                                                               : "a closed loop",
                           WhereText(report.levels.front().options)));
  for (const BenchLevel& level : report.levels) {
    const std::string name = absl::StrFormat("at %.6g", LevelValue(level.options));
    if (const std::string warning = ClientWarning(level); !warning.empty()) {
      tail.Add(name.c_str(), warning);
    }
    if (level.verification.has_value() && !level.verification->agreed()) {
      tail.Add(name.c_str(), VerificationText(*level.verification));
    }
    AddFailures(level.result, tail);
  }
  if (report.search.has_value()) {
    tail.Add("found", SearchText(report));
  }
  return absl::StrCat(head.text(), LevelsText(report), tail.text());
}

}  // namespace

std::string ToText(const BenchReport& report) {
  return report.levels.size() == 1 && !report.search.has_value() ? OneLevelText(report)
                                                                 : ManyLevelsText(report);
}

}  // namespace attention
