#include "client/load/report.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/load/machine.h"

namespace attention {
namespace {

struct Quantile {
  const char* name;
  double percent;
};
constexpr std::array kQuantiles = {Quantile{"p50", 50.0}, Quantile{"p90", 90.0},
                                   Quantile{"p95", 95.0}, Quantile{"p99", 99.0},
                                   Quantile{"p99.9", 99.9}};

/// Above this share of a core the client may have been the bottleneck.
constexpr double kBusyClient = 0.9;

double Milliseconds(double nanoseconds) { return nanoseconds / 1e6; }

struct Rates {
  double requests_per_s = 0.0;
  double tokens_per_s = 0.0;
  double gigabytes_per_s = 0.0;  // requests and answers, 1e9 bytes
  double queue_ms = 0.0;         // means
  double compute_ms = 0.0;
  double requests_per_batch = 0.0;
};

Rates RatesOf(const LoadReport& report) {
  const double window_s = absl::ToDoubleSeconds(report.result.window);
  const double count = static_cast<double>(report.result.latency_ns.count());
  if (count == 0.0) {
    return {};
  }
  return {.requests_per_s = count / window_s,
          .tokens_per_s = count * report.tokens_per_request / window_s,
          .gigabytes_per_s =
              (count * report.request_bytes + report.result.answered_bytes) / window_s / 1e9,
          .queue_ms = Milliseconds(report.result.queue_ns / count),
          .compute_ms = Milliseconds(report.result.compute_ns / count),
          .requests_per_batch = report.result.batch_requests / count};
}

int64_t NumErrors(const LoadResult& result) {
  int64_t total = 0;
  for (const auto& [code, count] : result.errors) {
    total += count;
  }
  return total;
}

std::string LatencyText(const Histogram& histogram) {
  std::string text = absl::StrFormat("mean %.3f", Milliseconds(histogram.mean()));
  for (const Quantile& quantile : kQuantiles) {
    absl::StrAppendFormat(&text, "  %s %.3f", quantile.name,
                          Milliseconds(histogram.Percentile(quantile.percent)));
  }
  absl::StrAppendFormat(&text, "  max %.3f ms", Milliseconds(histogram.max()));
  return text;
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

nlohmann::json LatencyJson(const Histogram& histogram) {
  nlohmann::json json = {{"mean", Milliseconds(histogram.mean())},
                         {"min", Milliseconds(histogram.min())},
                         {"max", Milliseconds(histogram.max())}};
  for (const Quantile& quantile : kQuantiles) {
    json[quantile.name] = Milliseconds(histogram.Percentile(quantile.percent));
  }
  return json;
}

nlohmann::json VerificationJson(const LoadVerification& verification) {
  nlohmann::json json = {{"agreed", verification.agreed()},
                         {"sampled", verification.sampled},
                         {"identical", verification.identical}};
  if (verification.reference.has_value()) {
    json["relative_l2"] = verification.reference->relative_l2;
    json["tolerance"] = verification.reference->tolerance;
  }
  return json;
}

nlohmann::json OptionsJson(const LoadReport& report) {
  const LoadOptions& options = report.options;
  nlohmann::json json = {{"server", options.server},
                         {"model", report.model},
                         {"request", report.request},
                         {"stream", report.is_streaming},
                         {"concurrency", options.concurrency},
                         {"connections", options.connections},
                         {"warmup_s", absl::ToDoubleSeconds(options.warmup)},
                         {"duration_s", absl::ToDoubleSeconds(options.duration)},
                         {"timeout_s", absl::ToDoubleSeconds(options.timeout)}};
  if (report.causal.has_value()) {
    json["causal"] = *report.causal;
  }
  return json;
}

}  // namespace

bool Succeeded(const LoadReport& report) {
  return report.result.errors.empty() && report.result.latency_ns.count() > 0 &&
         (!report.verification.has_value() || report.verification->agreed());
}

std::string ToText(const LoadReport& report) {
  const LoadResult& result = report.result;
  const Rates rates = RatesOf(report);
  std::string text;
  const auto line = [&text](const char* name, const std::string& value) {
    absl::StrAppendFormat(&text, "%-11s %s\n", name, value);
  };
  line("request", absl::StrCat(report.model.empty() ? "" : report.model + ", ", report.request,
                               report.causal.value_or(false) ? ", causal" : "",
                               report.is_streaming ? ", streamed" : ""));
  line("load", absl::StrFormat("closed loop of %d on %d connection%s to %s",
                               report.options.concurrency, report.options.connections,
                               report.options.connections == 1 ? "" : "s", report.options.server));
  line("answers", absl::StrFormat("%d in %.1f s, %d failed", result.latency_ns.count(),
                                  absl::ToDoubleSeconds(result.window), NumErrors(result)));
  line("throughput",
       absl::StrFormat("%.1f requests/s   %.0f tokens/s   %.3f GB/s", rates.requests_per_s,
                       rates.tokens_per_s, rates.gigabytes_per_s));
  line("latency", LatencyText(result.latency_ns));
  if (report.is_streaming) {
    line("first block", LatencyText(result.first_message_ns));
  }
  line("server",
       absl::StrFormat("queue %.3f ms   compute %.3f ms   %.1f requests per batch (means)",
                       rates.queue_ms, rates.compute_ms, rates.requests_per_batch));
  line("client",
       absl::StrFormat(
           "%.0f%% of one core%s", 100.0 * result.client_cpu_share,
           result.client_cpu_share > kBusyClient ? ": the client itself may be the limit" : ""));
  if (report.verification.has_value()) {
    line("verified", VerificationText(*report.verification));
  }
  for (const auto& [code, count] : result.errors) {
    line("failed", absl::StrCat(count, " x ", code, ": ", result.error_texts.at(code)));
  }
  if (result.gave_up) {
    line("stopped", "early, because nothing but errors came");
  }
  return text;
}

nlohmann::json ToJson(const LoadReport& report) {
  const LoadResult& result = report.result;
  const Rates rates = RatesOf(report);
  nlohmann::json json = {{"options", OptionsJson(report)},
                         {"machine", DescribeMachine()},
                         {"succeeded", Succeeded(report)},
                         {"answers", result.latency_ns.count()},
                         {"window_s", absl::ToDoubleSeconds(result.window)},
                         {"requests_per_s", rates.requests_per_s},
                         {"tokens_per_s", rates.tokens_per_s},
                         {"gigabytes_per_s", rates.gigabytes_per_s},
                         {"latency_ms", LatencyJson(result.latency_ns)},
                         {"server_ms", {{"queue", rates.queue_ms}, {"compute", rates.compute_ms}}},
                         {"requests_per_batch", rates.requests_per_batch},
                         {"client_cpu_share", result.client_cpu_share},
                         {"errors", result.errors},
                         {"error_texts", result.error_texts},
                         {"gave_up", result.gave_up}};
  if (report.is_streaming) {
    json["first_block_ms"] = LatencyJson(result.first_message_ns);
  }
  if (report.verification.has_value()) {
    json["verification"] = VerificationJson(*report.verification);
  }
  return json;
}

}  // namespace attention
