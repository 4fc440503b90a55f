#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/load/decode_bench.h"
#include "client/load/machine.h"
#include "client/load/report_parts.h"

namespace attention {
namespace {

struct DecodeRates {
  double steps_per_s = 0.0;
  double step_tokens_per_s = 0.0;
  double prefill_tokens_per_s = 0.0;
  // Means over the steps.
  double queue_ms = 0.0;
  double compute_ms = 0.0;
  double steps_per_batch = 0.0;
};

DecodeRates RatesOf(const DecodeReport& report) {
  const DecodeLoadResult& result = report.result;
  const double window_s = absl::ToDoubleSeconds(result.window);
  const auto steps = static_cast<double>(result.steps);
  return {.steps_per_s = steps / window_s,
          .step_tokens_per_s = steps * report.decode.step_tokens / window_s,
          .prefill_tokens_per_s = result.prefills * report.decode.prefill / window_s,
          .queue_ms = Milliseconds(Share(result.account.queue_ns, steps)),
          .compute_ms = Milliseconds(Share(result.account.compute_ns, steps)),
          .steps_per_batch = Share(result.account.batch_requests, steps)};
}

std::string LoadText(const LoadOptions& options) {
  return absl::StrFormat("%d session%s on %d connection%s to %s", options.concurrency,
                         options.concurrency == 1 ? "" : "s", options.connections,
                         options.connections == 1 ? "" : "s", options.connection.server);
}

}  // namespace

bool Succeeded(const DecodeReport& report) {
  return report.result.failures.empty() && report.result.steps > 0 &&
         (!report.verification.has_value() || report.verification->agreed());
}

std::string ToText(const DecodeReport& report) {
  const DecodeLoadResult& result = report.result;
  const DecodeRates rates = RatesOf(report);
  ReportLines lines;
  lines.Add("decode",
            absl::StrCat(report.model.empty() ? "" : report.model + ", ", report.request));
  lines.Add("load", LoadText(report.options));
  lines.Add("answers",
            absl::StrFormat("%d steps and %d prompts in %.1f s, %d sessions failed", result.steps,
                            result.prefills, absl::ToDoubleSeconds(result.window),
                            NumFailures(result.failures)));
  lines.Add(
      "throughput",
      absl::StrFormat("%.1f tokens/s in %.1f steps/s   %.0f tokens/s of prompts",
                      rates.step_tokens_per_s, rates.steps_per_s, rates.prefill_tokens_per_s));
  lines.Add("step", LatencyText(result.step_ns));
  lines.Add("to first", LatencyText(result.first_answer_ns));
  lines.Add("server",
            absl::StrFormat("queue %.3f ms   compute %.3f ms   %.1f requests per batch (means)",
                            rates.queue_ms, rates.compute_ms, rates.steps_per_batch));
  lines.Add("client", ClientText(result.client_cpu_share, BusyWarning(result.client_cpu_share)));
  if (report.verification.has_value()) {
    lines.Add("verified", VerificationText(*report.verification));
  }
  AddFailures(result.failures, result.gave_up, lines);
  return lines.text();
}

nlohmann::json ToJson(const DecodeReport& report) {
  const DecodeLoadResult& result = report.result;
  const LoadOptions& options = report.options;
  const DecodeRates rates = RatesOf(report);
  nlohmann::json json = {{"options",
                          {{"server", options.connection.server},
                           {"model", report.model},
                           {"request", report.request},
                           {"decode", true},
                           {"prefill", report.decode.prefill},
                           {"steps", report.decode.steps},
                           {"step_tokens", report.decode.step_tokens},
                           {"cache_dtype", v1::DataType_Name(report.decode.cache_dtype)},
                           {"concurrency", options.concurrency},
                           {"connections", options.connections},
                           {"warmup_s", absl::ToDoubleSeconds(options.warmup)},
                           {"duration_s", absl::ToDoubleSeconds(options.duration)},
                           {"timeout_s", absl::ToDoubleSeconds(options.timeout)},
                           {"seed", options.seed}}},
                         {"machine", DescribeMachine()},
                         {"succeeded", Succeeded(report)},
                         {"steps", result.steps},
                         {"prefills", result.prefills},
                         {"window_s", absl::ToDoubleSeconds(result.window)},
                         {"steps_per_s", rates.steps_per_s},
                         {"tokens_per_s", rates.step_tokens_per_s},
                         {"prefill_tokens_per_s", rates.prefill_tokens_per_s},
                         {"step_ms", LatencyJson(result.step_ns)},
                         {"first_answer_ms", LatencyJson(result.first_answer_ns)},
                         {"server_ms", {{"queue", rates.queue_ms}, {"compute", rates.compute_ms}}},
                         {"requests_per_batch", rates.steps_per_batch},
                         {"client_cpu_share", result.client_cpu_share},
                         {"client_warning", BusyWarning(result.client_cpu_share)},
                         {"gave_up", result.gave_up}};
  AddFailures(result.failures, json);
  if (report.verification.has_value()) {
    json["verification"] = VerificationJson(*report.verification);
  }
  return json;
}

}  // namespace attention
