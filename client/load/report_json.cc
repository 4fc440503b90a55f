#include "absl/strings/str_cat.h"
#include "client/load/load_rates.h"
#include "client/load/machine.h"
#include "client/load/report.h"
#include "client/load/report_parts.h"

namespace attention {
namespace {

nlohmann::json OptionsJson(const LoadReport& report) {
  const LoadOptions& options = report.options;
  nlohmann::json json = {{"server", options.connection.server},
                         {"model", report.model},
                         {"request", report.request},
                         {"protocol", report.protocol},
                         {"stream", report.is_streaming},
                         {"connections", options.connections},
                         {"retries", options.connection.retries},
                         {"warmup_s", absl::ToDoubleSeconds(options.warmup)},
                         {"duration_s", absl::ToDoubleSeconds(options.duration)},
                         {"timeout_s", absl::ToDoubleSeconds(options.timeout)},
                         {"seed", options.seed}};
  if (options.open_loop.has_value()) {
    const ArrivalOptions& arrivals = options.open_loop->arrivals;
    json["rate_per_s"] = arrivals.rate_per_s;
    json["arrivals"] = arrivals.arrivals == Arrivals::kPoisson ? "poisson" : "constant";
    json["max_in_flight"] = options.open_loop->max_in_flight;
  } else {
    json["concurrency"] = options.concurrency;
  }
  if (!report.lengths.empty()) {
    json["lengths"] = report.lengths;
  }
  if (report.causal.has_value()) {
    json["causal"] = *report.causal;
  }
  return json;
}

}  // namespace

bool Succeeded(const LoadReport& report) {
  return report.result.failures.empty() && report.result.answers > 0 &&
         (!report.verification.has_value() || report.verification->agreed());
}

nlohmann::json ToJson(const LoadReport& report) {
  const LoadResult& result = report.result;
  const LoadRates rates = RatesOf(result);
  nlohmann::json json = {{"options", OptionsJson(report)},
                         {"machine", DescribeMachine()},
                         {"succeeded", Succeeded(report)},
                         {"answers", result.answers},
                         {"window_s", absl::ToDoubleSeconds(result.window)},
                         {"requests_per_s", rates.requests_per_s},
                         {"tokens_per_s", rates.tokens_per_s},
                         {"gigabytes_per_s", rates.gigabytes_per_s},
                         {"latency_ms", LatencyJson(result.latency_ns)},
                         {"client_cpu_share", result.client_cpu_share},
                         {"client_warning", ClientWarning(report)},
                         {"gave_up", result.gave_up}};
  AddFailures(result.failures, json);
  if (result.accounts > 0) {
    json["server_ms"] = {{"queue", rates.queue_ms}, {"compute", rates.compute_ms}};
    json["requests_per_batch"] = rates.requests_per_batch;
  }
  if (result.pace.has_value()) {
    json["offered_per_s"] = rates.offered_per_s;
    json["sent_per_s"] = rates.sent_per_s;
    json["goodput_per_s"] = rates.requests_per_s;
    json["service_ms"] = LatencyJson(result.service_ns);
    json["lag_ms"] = LatencyJson(result.pace->lag_ns);
  }
  if (report.is_streaming) {
    json["first_block_ms"] = LatencyJson(result.first_message_ns);
  }
  if (report.verification.has_value()) {
    json["verification"] = VerificationJson(*report.verification);
  }
  return json;
}

}  // namespace attention
