#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/load/load_result.h"
#include "client/load/report.h"
#include "core/runtime/counted.h"

namespace attention {
namespace {

std::string ArrivalsText(const ArrivalOptions& arrivals) {
  if (arrivals.trace != nullptr) {
    return absl::StrCat("open loop of the ", Counted(std::ssize(arrivals.trace->times), "request"),
                        " of ", arrivals.trace->path);
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

/// Returns a percentile in milliseconds; "-" if there are too few values for it.
std::string PercentileOrDash(const Histogram& nanoseconds, double percent) {
  return nanoseconds.IsEnoughFor(percent)
             ? absl::StrFormat("%.3f", Milliseconds(nanoseconds.Percentile(percent)))
             : "-";
}

std::string MaximumOrDash(const Histogram& nanoseconds) {
  return nanoseconds.count() == 0 ? "-" : absl::StrFormat("%.3f", Milliseconds(nanoseconds.max()));
}

/// Describes the requests: "demo, hidden states [1, 128, 512] FP32, causal, streamed".
std::string SubjectText(const BenchSubject& subject) {
  return absl::StrCat(subject.model.empty() ? "" : subject.model + ", ", subject.request,
                      subject.is_streaming && !subject.decode.has_value() ? ", streamed" : "",
                      subject.protocol == "oip" ? ", by the Open Inference Protocol" : "");
}

/// Describes the load: "closed loop of 4", "open loop of 100 requests/s, poisson arrivals", "8
/// sessions".
std::string LoadText(const BenchSubject& subject, const LoadOptions& options) {
  if (options.open_loop.has_value()) {
    return ArrivalsText(options.open_loop->arrivals);
  }
  if (subject.decode.has_value()) {
    return Counted(options.concurrency, "session");
  }
  return absl::StrFormat("closed loop of %d", options.concurrency);
}

/// A line, also of an error that has several.
std::string Line(const std::string& name, const std::string& value) {
  return absl::StrFormat("%-11s %s\n", name, absl::StrReplaceAll(value, {{"\n", " "}}));
}

/// Whether samples were wanted, and no answer could be one.
bool ComparedNone(const LoadVerification& verification) {
  return verification.wanted > 0 && verification.sampled + verification.unchecked == 0;
}

std::string VerificationText(const LoadVerification& verification) {
  std::string text;
  if (verification.reference.has_value()) {
    text = absl::StrFormat("%s with the reference: relative L2 %.1e (tolerance %.1e); ",
                           verification.reference->agreed() ? "agrees" : "DISAGREES",
                           verification.reference->relative_l2, verification.reference->tolerance);
  }
  if (ComparedNone(verification)) {
    return absl::StrCat(text, "NO answer was compared, ", verification.wanted, " wanted");
  }
  absl::StrAppendFormat(&text, "%d of %d samples bit-identical", verification.identical,
                        verification.sampled);
  if (verification.sampled + verification.unchecked < verification.wanted) {
    absl::StrAppendFormat(&text, ", of the %d wanted", verification.wanted);
  }
  if (verification.unchecked > 0) {
    absl::StrAppendFormat(&text, "; %d more could NOT BE CHECKED: %s", verification.unchecked,
                          verification.unchecked_text);
  }
  return text;
}

/// The result of a search: "120 requests/s is the highest level found that meets p99=50ms (126
/// missed)".
std::string SearchText(const BenchReport& report) {
  const SearchVerdict& verdict = *report.search;
  const std::string targets = absl::StrJoin(
      report.slo, ", ",
      [](std::string* out, const SloTarget& target) { absl::StrAppend(out, target.text); });
  const std::string missed = absl::StrCat(
      verdict.lowest_missed.has_value() ? absl::StrFormat("%.6g missed", *verdict.lowest_missed)
                                        : "none missed",
      WasStopped(report) ? "; STOPPED before the search ended" : "");
  if (!verdict.highest_met.has_value()) {
    return absl::StrCat("NO level meets ", targets, " (", missed, ")");
  }
  return absl::StrFormat("%.6g %s is the highest level found that meets %s (%s)",
                         *verdict.highest_met, UnitOf(report), targets, missed);
}

/// The header of the table of latencies.
std::string LatencyHeader() {
  std::string line = absl::StrFormat("%-11s %10s", "ms", "mean");
  for (const Quantile& quantile : kQuantiles) {
    absl::StrAppendFormat(&line, " %10s", quantile.name);
  }
  return absl::StrFormat("%s %10s\n", line, "max");
}

/// A line of that table; empty without values.
std::string LatencyLine(const char* name, const Histogram& nanoseconds) {
  if (nanoseconds.count() == 0) {
    return "";
  }
  std::string line = absl::StrFormat("%-11s %10.3f", name, Milliseconds(nanoseconds.mean()));
  for (const Quantile& quantile : kQuantiles) {
    absl::StrAppendFormat(&line, " %10s", PercentileOrDash(nanoseconds, quantile.percent));
  }
  return absl::StrFormat("%s %10.3f\n", line, Milliseconds(nanoseconds.max()));
}

/// "3 failed, 97 more in the warm-up".
std::string FailedText(const Failures& failures) {
  const int64_t in_window = NumFailuresInWindow(failures);
  const int64_t before = NumFailures(failures) - in_window;
  return absl::StrCat(in_window, " failed",
                      before > 0 ? absl::StrCat(", ", before, " more in the warm-up") : "");
}

/// With one digit behind the point, below 1 with three.
std::string ShortText(double value) { return absl::StrFormat("%.*f", value < 1 ? 3 : 1, value); }

std::string CountsText(const BenchReport& report, const BenchLevel& level) {
  const LoadResult& result = level.result;
  const LoadRates rates = RatesOf(result);
  const bool is_decode = report.subject.decode.has_value();
  std::string text;
  if (result.pace.has_value()) {
    text +=
        Line("rate", absl::StrFormat("offered %s/s   sent %s/s   goodput %s/s",
                                     ShortText(rates.offered_per_s), ShortText(rates.sent_per_s),
                                     ShortText(rates.requests_per_s)));
  }
  const std::string what = is_decode ? absl::StrCat(Counted(result.answers, "step"), " and ",
                                                    Counted(result.prefills, "prompt"))
                                     : absl::StrCat(result.answers);
  text += Line("answers", absl::StrFormat("%s in %s s, %s", what,
                                          ShortText(absl::ToDoubleSeconds(result.window)),
                                          FailedText(result.failures)));
  std::string throughput =
      absl::StrFormat("%s %s/s   %.0f tokens/s   %.3f GB/s", ShortText(rates.requests_per_s),
                      is_decode ? "steps" : "requests", rates.tokens_per_s, rates.gigabytes_per_s);
  if (is_decode) {
    absl::StrAppendFormat(&throughput, "   %.0f tokens/s of prompts", rates.prefill_tokens_per_s);
  }
  return text + Line("throughput", throughput);
}

std::string LatenciesText(const BenchReport& report, const LoadResult& result) {
  const bool is_decode = report.subject.decode.has_value();
  const LoadPhases& phases = result.phases;
  return absl::StrCat(
      LatencyHeader(), LatencyLine(is_decode ? "step" : "latency", result.latency_ns),
      LatencyLine(is_decode ? "first token" : "first block", result.first_message_ns),
      LatencyLine("next block", result.message_gap_ns), LatencyLine("per token", result.token_ns),
      LatencyLine("service", result.service_ns),
      result.pace.has_value() ? LatencyLine("sent late", result.pace->lag_ns) : "",
      is_decode ? "" : LatencyLine("  receive", phases.receive_ns),
      LatencyLine("  queue", phases.queue_ns), LatencyLine("  compute", phases.compute_ns),
      LatencyLine("  return", phases.return_ns));
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

/// The answers of each server, if there are or should be several.
std::string ServersText(const BenchLevel& level) {
  const auto& servers = level.result.servers;
  if (servers.size() < 2 && !MissesServers(level)) {
    return "";
  }
  const std::string counts = absl::StrJoin(servers, ", ", [](std::string* out, const auto& server) {
    absl::StrAppend(out, server.first, " ", server.second);
  });
  return MissesServers(level)
             ? absl::StrCat("only ", servers.size(), " of ", NumServersNamed(level),
                            " answered within the window: ", counts)
             : absl::StrCat("answers of ", counts);
}

/// The calls that were in flight when the window ended.
std::string UnfinishedText(const Histogram& unfinished_ns) {
  return absl::StrFormat("%d in flight, the slowest took %.3f ms", unfinished_ns.count(),
                         Milliseconds(static_cast<double>(unfinished_ns.max())));
}

/// "did NOT keep up: of 800.0 requests/s 109.0 were answered in the second half, 690 waited at the
/// end"; empty if the server kept up.
std::string KeepingUpText(const BenchLevel& level) {
  const std::optional<KeepingUp> keeping_up = KeepingUpOf(level);
  if (!keeping_up.has_value() || keeping_up->is_kept) {
    return "";
  }
  return absl::StrFormat(
      "did NOT keep up: of %.1f requests/s %.1f were answered in the second half, %d waited at the "
      "end",
      keeping_up->due_per_s, keeping_up->answers_per_s, level.result.unfinished_ns.count());
}

/// "1.5 requests per batch, 99.9% of tokens from the prefix cache"; empty if the server says
/// neither.
std::string ServerText(const LoadResult& result) {
  std::vector<std::string> parts;
  if (result.accounts > 0) {
    parts.push_back(absl::StrFormat("%.1f requests per batch", RatesOf(result).requests_per_batch));
  }
  if (result.cached_tokens > 0) {
    const int64_t all = result.tokens + result.prefill_tokens;
    parts.push_back(absl::StrFormat(
        "%.3g%% of tokens from the prefix cache",
        100.0 * Share(static_cast<double>(result.cached_tokens), static_cast<double>(all))));
  }
  return absl::StrJoin(parts, ", ");
}

/// A line about a level besides its counts and latencies.
struct Remark {
  const char* name;
  std::string text;
  bool is_bad = false;
};

using Remarks = std::vector<Remark>;

/// Adds what the server and the client did.
void AddMeasured(const BenchReport& report, const BenchLevel& level, Remarks& remarks) {
  const LoadResult& result = level.result;
  // Sessions are opened however few steps are measured.
  if (HasUnusedLanes(level.options) && !report.subject.decode.has_value()) {
    remarks.push_back({"requests",
                       absl::StrFormat("only %d of %d were ever in flight: there were no more",
                                       level.options.requests, level.options.concurrency),
                       true});
  }
  if (const std::string text = ServerText(result); !text.empty()) {
    remarks.push_back({"server", text});
  }
  if (result.pace.has_value() && result.pace->due == 0) {
    remarks.push_back({"requests", "NONE was due within the window: nothing was measured", true});
  }
  if (const std::string text = KeepingUpText(level); !text.empty()) {
    remarks.push_back({"server", text, true});
  }
  if (const Histogram& unfinished = result.unfinished_ns; unfinished.count() > 0) {
    remarks.push_back(
        {"at the end", UnfinishedText(unfinished), unfinished.max() > 2 * result.latency_ns.max()});
  }
  if (level.stability.windows.size() > 1) {
    remarks.push_back(
        {"stability", StabilityText(level),
         level.options.stability.has_value() && !level.stability.is_stable.value_or(false)});
  }
  remarks.push_back({"client", ClientText(level), !ClientWarning(level).empty()});
}

/// Adds what was checked.
void AddChecks(const BenchLevel& level, Remarks& remarks) {
  if (level.verification.has_value()) {
    remarks.push_back({"verified", VerificationText(*level.verification),
                       !level.verification->agreed() || ComparedNone(*level.verification)});
  }
  if (const std::string text = ServersText(level); !text.empty()) {
    remarks.push_back({"servers", text, MissesServers(level)});
  }
  for (const SloCheck& check : level.slo) {
    remarks.push_back({"target", SloText(check), !check.is_met});
  }
}

/// Adds what went wrong.
void AddFailures(const LoadResult& result, Remarks& remarks) {
  for (const auto& [code, failure] : result.failures) {
    remarks.push_back(
        {"failed", absl::StrCat(failure.count, " x ", code, ": ", failure.first_text), true});
    const Histogram& latency = failure.latency_ns;
    if (latency.count() > 0) {
      remarks.push_back(
          {"",
           absl::StrFormat("after mean %.3f  p99 %s  max %.3f ms", Milliseconds(latency.mean()),
                           PercentileOrDash(latency, 99), Milliseconds(latency.max())),
           true});
    }
  }
  if (result.gave_up || result.was_stopped) {
    remarks.push_back({"stopped",
                       result.gave_up ? "early, because nothing but errors came" : "early, by hand",
                       true});
  }
}

Remarks RemarksOf(const BenchReport& report, const BenchLevel& level) {
  Remarks remarks;
  AddMeasured(report, level, remarks);
  AddChecks(level, remarks);
  AddFailures(level.result, remarks);
  return remarks;
}

/// The first two lines: the request, and `load` with its connections.
std::string HeadText(const BenchReport& report, const std::string& load) {
  const LoadOptions& options = report.levels.front().options;
  return absl::StrCat(
      Line(report.subject.decode.has_value() ? "decode" : "request", SubjectText(report.subject)),
      Line("load", absl::StrCat(load, ", on ", Counted(options.connections, "connection"), " to ",
                                options.connection.server,
                                options.connection.retries ? ", with retries" : "")));
}

std::string OneLevelText(const BenchReport& report) {
  const BenchLevel& level = report.levels.front();
  std::string text = absl::StrCat(HeadText(report, LoadText(report.subject, level.options)),
                                  CountsText(report, level), LatenciesText(report, level.result));
  for (const Remark& remark : RemarksOf(report, level)) {
    text += Line(remark.name, remark.text);
  }
  return text;
}

/// A table with a line for each level, and below it what is bad about which.
std::string ManyLevelsText(const BenchReport& report) {
  const bool is_open = report.levels.front().options.open_loop.has_value();
  const bool is_decode = report.subject.decode.has_value();
  std::string text =
      HeadText(report, absl::StrCat(Counted(std::ssize(report.levels), "level"), " of ",
                                    is_open     ? "an open loop"
                                    : is_decode ? "sessions"
                                                : "a closed loop"));
  absl::StrAppendFormat(&text, "%10s %11s %11s %9s %9s %9s %9s %9s %7s\n",
                        is_open     ? "rate"
                        : is_decode ? "sessions"
                                    : "in flight",
                        is_decode ? "steps/s" : "answers/s", "tokens/s", "p50 ms", "p90 ms",
                        "p99 ms", "p99.9 ms", "max ms", "failed");
  std::string remarks;
  for (const BenchLevel& level : report.levels) {
    const LoadRates rates = RatesOf(level.result);
    const Histogram& latency = level.result.latency_ns;
    const auto ms = [&](double percent) { return PercentileOrDash(latency, percent); };
    absl::StrAppendFormat(&text, "%10.6g %11.1f %11.0f %9s %9s %9s %9s %9s %7d\n",
                          LevelValue(level.options), rates.requests_per_s, rates.tokens_per_s,
                          ms(50), ms(90), ms(99), ms(99.9), MaximumOrDash(latency),
                          NumFailuresInWindow(level.result.failures));
    for (const Remark& remark : RemarksOf(report, level)) {
      if (remark.is_bad) {
        remarks += Line(absl::StrFormat("at %.6g", LevelValue(level.options)),
                        absl::StrCat(remark.name, *remark.name == '\0' ? "" : " ", remark.text));
      }
    }
  }
  return absl::StrCat(text, remarks,
                      report.search.has_value() ? Line("found", SearchText(report)) : "");
}

}  // namespace

std::string ToText(const BenchReport& report) {
  return report.levels.size() == 1 && !report.search.has_value() ? OneLevelText(report)
                                                                 : ManyLevelsText(report);
}

}  // namespace attention
