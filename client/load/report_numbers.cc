#include "client/load/report_numbers.h"

#include <array>

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
  nlohmann::json json = {{"mean", Milliseconds(nanoseconds.mean())},
                         {"min", Milliseconds(nanoseconds.min())},
                         {"max", Milliseconds(nanoseconds.max())}};
  for (const Quantile& quantile : kQuantiles) {
    json[quantile.name] = Milliseconds(nanoseconds.Percentile(quantile.percent));
  }
  return json;
}

LoadRates RatesOf(const LoadResult& result) {
  const double window_s = absl::ToDoubleSeconds(result.window);
  const auto answers = static_cast<double>(result.answers);
  const auto accounts = static_cast<double>(result.accounts);
  LoadRates rates{
      .requests_per_s = answers / window_s,
      .tokens_per_s = result.tokens / window_s,
      .gigabytes_per_s = (result.request_bytes + result.answered_bytes) / window_s / 1e9,
      .queue_ms = Milliseconds(Share(result.account.queue_ns, accounts)),
      .compute_ms = Milliseconds(Share(result.account.compute_ns, accounts)),
      .requests_per_batch = Share(result.account.batch_requests, accounts)};
  if (result.pace.has_value()) {
    rates.offered_per_s = result.pace->due / window_s;
    rates.sent_per_s = (result.pace->due - result.pace->not_sent) / window_s;
  }
  return rates;
}

int64_t NumFailures(const LoadResult& result) {
  int64_t total = 0;
  for (const auto& [code, failure] : result.failures) {
    total += failure.count;
  }
  return total;
}

}  // namespace attention
