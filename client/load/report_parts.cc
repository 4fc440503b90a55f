#include "client/load/report_parts.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/load/load_result.h"

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

}  // namespace

std::string LatencyText(const Histogram& nanoseconds) {
  std::string text = absl::StrFormat("mean %.3f", Milliseconds(nanoseconds.mean()));
  for (const Quantile& quantile : kQuantiles) {
    absl::StrAppendFormat(&text, "  %s %.3f", quantile.name,
                          Milliseconds(nanoseconds.Percentile(quantile.percent)));
  }
  absl::StrAppendFormat(&text, "  max %.3f ms", Milliseconds(nanoseconds.max()));
  return text;
}

nlohmann::json LatencyJson(const Histogram& nanoseconds) {
  nlohmann::json json = {{"count", nanoseconds.count()},
                         {"mean", Milliseconds(nanoseconds.mean())},
                         {"min", Milliseconds(nanoseconds.min())},
                         {"max", Milliseconds(nanoseconds.max())},
                         {"histogram", nanoseconds.Counts()}};
  for (const Quantile& quantile : kQuantiles) {
    json[quantile.name] = Milliseconds(nanoseconds.Percentile(quantile.percent));
  }
  return json;
}

bool IsBackedUp(const Histogram& values, double percent) {
  return static_cast<double>(values.count()) * (100.0 - percent) >= 100.0 - 1e-9;
}

std::string SubjectText(const BenchSubject& subject) {
  return absl::StrCat(subject.model.empty() ? "" : subject.model + ", ", subject.request,
                      subject.causal.value_or(false) ? ", causal" : "",
                      subject.is_streaming && !subject.decode.has_value() ? ", streamed" : "",
                      subject.protocol == "oip" ? ", by the Open Inference Protocol" : "");
}

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

std::string SloText(const SloCheck& check) {
  const std::string measured = check.target.of == SloTarget::Of::kErrors
                                   ? absl::StrFormat("%.3g%%", 100.0 * check.measured)
                                   : absl::StrFormat("%.3f ms", check.measured);
  return absl::StrCat(check.target.text, check.is_met ? " met: " : " MISSED: ", measured);
}

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

}  // namespace attention
