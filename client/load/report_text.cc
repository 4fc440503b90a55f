#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/load/report.h"
#include "client/load/report_numbers.h"

namespace attention {
namespace {

/// Above this share of a core the client may have been the bottleneck.
constexpr double kBusyClient = 0.9;
/// Requests that are sent later than this are late; one of a hundred may be.
constexpr int64_t kLateNs = 1'000'000;

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

std::string LoadText(const LoadOptions& options) {
  const std::string where = absl::StrFormat("on %d connection%s to %s", options.connections,
                                            options.connections == 1 ? "" : "s", options.server);
  if (!options.open_loop.has_value()) {
    return absl::StrFormat("closed loop of %d %s", options.concurrency, where);
  }
  const ArrivalOptions& arrivals = options.open_loop->arrivals;
  return absl::StrFormat("open loop of %.6g requests/s, %s arrivals, %s", arrivals.rate_per_s,
                         arrivals.arrivals == Arrivals::kPoisson ? "poisson" : "constant", where);
}

/// "NAME        value" lines.
class Lines {
 public:
  void Add(const char* name, const std::string& value) {
    absl::StrAppendFormat(&text_, "%-11s %s\n", name, value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void AddRates(const LoadReport& report, const LoadRates& rates, Lines& lines) {
  const LoadResult& result = report.result;
  if (result.pace.has_value()) {
    lines.Add("rate", absl::StrFormat("offered %.1f/s   sent %.1f/s   goodput %.1f/s",
                                      rates.offered_per_s, rates.sent_per_s, rates.requests_per_s));
  }
  lines.Add("answers", absl::StrFormat("%d in %.1f s, %d failed", result.answers,
                                       absl::ToDoubleSeconds(result.window), NumFailures(result)));
  lines.Add("throughput",
            absl::StrFormat("%.1f requests/s   %.0f tokens/s   %.3f GB/s", rates.requests_per_s,
                            rates.tokens_per_s, rates.gigabytes_per_s));
}

void AddLatencies(const LoadReport& report, Lines& lines) {
  const LoadResult& result = report.result;
  lines.Add("latency", LatencyText(result.latency_ns));
  if (report.is_streaming) {
    lines.Add("first block", LatencyText(result.first_message_ns));
  }
  if (result.pace.has_value()) {
    lines.Add("service", LatencyText(result.service_ns));
    lines.Add("sent late", LatencyText(result.pace->lag_ns));
  }
}

void AddFailures(const LoadResult& result, Lines& lines) {
  for (const auto& [code, failure] : result.failures) {
    lines.Add("failed", absl::StrCat(failure.count, " x ", code, ": ", failure.first_text));
    if (failure.latency_ns.count() > 0) {
      lines.Add("", absl::StrCat("after ", LatencyText(failure.latency_ns)));
    }
  }
  if (result.gave_up) {
    lines.Add("stopped", "early, because nothing but errors came");
  }
}

}  // namespace

std::string ClientWarning(const LoadReport& report) {
  const LoadResult& result = report.result;
  std::vector<std::string> reasons;
  if (result.client_cpu_share > kBusyClient) {
    reasons.push_back("it was busy");
  }
  if (result.pace.has_value() && result.pace->lag_ns.Percentile(99.0) > kLateNs) {
    reasons.push_back(absl::StrFormat("one request of a hundred was sent more than %.1f ms late",
                                      Milliseconds(result.pace->lag_ns.Percentile(99.0))));
  }
  return reasons.empty() ? ""
                         : absl::StrCat("the client itself may be the limit: ",
                                        absl::StrJoin(reasons, ", and "));
}

std::string ToText(const LoadReport& report) {
  const LoadResult& result = report.result;
  const LoadRates rates = RatesOf(result);
  Lines lines;
  lines.Add("request",
            absl::StrCat(report.model.empty() ? "" : report.model + ", ", report.request,
                         report.causal.value_or(false) ? ", causal" : "",
                         report.is_streaming ? ", streamed" : "",
                         report.protocol == "oip" ? ", by the Open Inference Protocol" : ""));
  lines.Add("load", LoadText(report.options));
  AddRates(report, rates, lines);
  AddLatencies(report, lines);
  if (result.accounts > 0) {
    lines.Add("server",
              absl::StrFormat("queue %.3f ms   compute %.3f ms   %.1f requests per batch (means)",
                              rates.queue_ms, rates.compute_ms, rates.requests_per_batch));
  }
  const std::string warning = ClientWarning(report);
  lines.Add("client", absl::StrFormat("%.0f%% of one core%s", 100.0 * result.client_cpu_share,
                                      warning.empty() ? "" : ": " + warning));
  if (report.verification.has_value()) {
    lines.Add("verified", VerificationText(*report.verification));
  }
  AddFailures(result, lines);
  return lines.text();
}

}  // namespace attention
