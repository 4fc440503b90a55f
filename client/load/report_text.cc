#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/load/load_rates.h"
#include "client/load/report.h"
#include "client/load/report_parts.h"

namespace attention {
namespace {

/// Requests that are sent later than this are late; one of a hundred may be.
constexpr int64_t kLateNs = 1'000'000;

std::string LoadText(const LoadOptions& options) {
  const std::string where =
      absl::StrFormat("on %d connection%s to %s", options.connections,
                      options.connections == 1 ? "" : "s", options.connection.server);
  if (!options.open_loop.has_value()) {
    return absl::StrFormat("closed loop of %d %s", options.concurrency, where);
  }
  const ArrivalOptions& arrivals = options.open_loop->arrivals;
  return absl::StrFormat("open loop of %.6g requests/s, %s arrivals, %s", arrivals.rate_per_s,
                         arrivals.arrivals == Arrivals::kPoisson ? "poisson" : "constant", where);
}

void AddRates(const LoadReport& report, const LoadRates& rates, ReportLines& lines) {
  const LoadResult& result = report.result;
  if (result.pace.has_value()) {
    lines.Add("rate", absl::StrFormat("offered %.1f/s   sent %.1f/s   goodput %.1f/s",
                                      rates.offered_per_s, rates.sent_per_s, rates.requests_per_s));
  }
  lines.Add("answers",
            absl::StrFormat("%d in %.1f s, %d failed", result.answers,
                            absl::ToDoubleSeconds(result.window), NumFailures(result.failures)));
  lines.Add("throughput",
            absl::StrFormat("%.1f requests/s   %.0f tokens/s   %.3f GB/s", rates.requests_per_s,
                            rates.tokens_per_s, rates.gigabytes_per_s));
}

void AddLatencies(const LoadReport& report, ReportLines& lines) {
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

}  // namespace

std::string ClientWarning(const LoadReport& report) {
  const LoadResult& result = report.result;
  const std::string busy = BusyWarning(result.client_cpu_share);
  if (!result.pace.has_value() || result.pace->lag_ns.Percentile(99.0) <= kLateNs) {
    return busy;
  }
  const std::string late =
      absl::StrFormat("one request of a hundred was sent more than %.1f ms late",
                      Milliseconds(result.pace->lag_ns.Percentile(99.0)));
  return busy.empty() ? absl::StrCat("the client itself may be the limit: ", late)
                      : absl::StrCat(busy, ", and ", late);
}

std::string ToText(const LoadReport& report) {
  const LoadResult& result = report.result;
  const LoadRates rates = RatesOf(result);
  ReportLines lines;
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
  lines.Add("client", ClientText(result.client_cpu_share, ClientWarning(report)));
  if (report.verification.has_value()) {
    lines.Add("verified", VerificationText(*report.verification));
  }
  AddFailures(result.failures, result.gave_up, lines);
  return lines.text();
}

}  // namespace attention
