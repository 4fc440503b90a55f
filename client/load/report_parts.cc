#include "client/load/report_parts.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

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
                         {"max", Milliseconds(nanoseconds.max())}};
  for (const Quantile& quantile : kQuantiles) {
    json[quantile.name] = Milliseconds(nanoseconds.Percentile(quantile.percent));
  }
  return json;
}

int64_t NumFailures(const Failures& failures) {
  int64_t total = 0;
  for (const auto& [code, failure] : failures) {
    total += failure.count;
  }
  return total;
}

void AddFailures(const Failures& failures, bool gave_up, ReportLines& lines) {
  for (const auto& [code, failure] : failures) {
    lines.Add("failed", absl::StrCat(failure.count, " x ", code, ": ", failure.first_text));
    if (failure.latency_ns.count() > 0) {
      lines.Add("", absl::StrCat("after ", LatencyText(failure.latency_ns)));
    }
  }
  if (gave_up) {
    lines.Add("stopped", "early, because nothing but errors came");
  }
}

void AddFailures(const Failures& failures, nlohmann::json& json) {
  json["errors"] = nlohmann::json::object();
  json["error_texts"] = nlohmann::json::object();
  json["error_latency_ms"] = nlohmann::json::object();
  for (const auto& [code, failure] : failures) {
    json["errors"][code] = failure.count;
    json["error_texts"][code] = failure.first_text;
    if (failure.latency_ns.count() > 0) {
      json["error_latency_ms"][code] = LatencyJson(failure.latency_ns);
    }
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

std::string BusyWarning(double client_cpu_share) {
  return client_cpu_share > kBusyClient ? "the client itself may be the limit: it was busy" : "";
}

std::string ClientText(double client_cpu_share, const std::string& warning) {
  return absl::StrFormat("%.0f%% of one core%s", 100.0 * client_cpu_share,
                         warning.empty() ? "" : ": " + warning);
}

}  // namespace attention
