#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/load/load_result.h"
#include "client/load/report.h"

namespace attention {
namespace {

constexpr std::array kColumns = {"Concurrency",
                                 "Request Rate",
                                 "Inferences/Second",
                                 "Client Send",
                                 "Network+Server Send/Recv",
                                 "Server Queue",
                                 "Server Compute Infer",
                                 "p50 latency",
                                 "p90 latency",
                                 "p95 latency",
                                 "p99 latency",
                                 "Avg latency",
                                 "p99.9 latency",
                                 "p99.99 latency",
                                 "Max latency",
                                 "Offered/Second",
                                 "Sent/Second",
                                 "Tokens/Second",
                                 "Answers",
                                 "Errors",
                                 "First block p50",
                                 "First block p99",
                                 "Token p50",
                                 "Token p99",
                                 "Stable",
                                 "Met"};

std::string Microseconds(double nanoseconds) { return absl::StrFormat("%.0f", nanoseconds / 1e3); }

std::string PercentileText(const Histogram& nanoseconds, double percent) {
  return nanoseconds.count() == 0
             ? ""
             : Microseconds(static_cast<double>(nanoseconds.Percentile(percent)));
}

std::string MeanText(const Histogram& nanoseconds) {
  return nanoseconds.count() == 0 ? "" : Microseconds(nanoseconds.mean());
}

std::string Line(const BenchLevel& level) {
  const LoadResult& result = level.result;
  const LoadRates rates = RatesOf(result);
  const bool is_open = level.options.open_loop.has_value();
  const auto rate = [](double per_s) { return absl::StrFormat("%.3f", per_s); };
  const Histogram& latency = result.latency_ns;
  const double wire_ns = result.phases.send_ns.mean() + result.phases.receive_ns.mean();
  const std::array<std::string, kColumns.size()> cells = {
      is_open ? "" : absl::StrCat(level.options.concurrency),
      is_open ? absl::StrFormat("%.6g", LevelValue(level.options)) : "",
      rate(rates.requests_per_s),
      is_open ? MeanText(result.pace->lag_ns) : "",
      result.accounts == 0 ? "" : Microseconds(wire_ns),
      MeanText(result.phases.queue_ns),
      MeanText(result.phases.compute_ns),
      PercentileText(latency, 50),
      PercentileText(latency, 90),
      PercentileText(latency, 95),
      PercentileText(latency, 99),
      MeanText(latency),
      PercentileText(latency, 99.9),
      PercentileText(latency, 99.99),
      latency.count() == 0 ? "" : Microseconds(static_cast<double>(latency.max())),
      is_open ? rate(rates.offered_per_s) : "",
      is_open ? rate(rates.sent_per_s) : "",
      rate(rates.tokens_per_s),
      absl::StrCat(result.answers),
      absl::StrCat(NumFailures(result.failures)),
      PercentileText(result.first_message_ns, 50),
      PercentileText(result.first_message_ns, 99),
      PercentileText(result.token_ns, 50),
      PercentileText(result.token_ns, 99),
      level.stability.is_stable.has_value() ? (*level.stability.is_stable ? "1" : "0") : "",
      MeetsTargets(level) ? "1" : "0"};
  return absl::StrJoin(cells, ",");
}

}  // namespace

std::string ToCsv(const BenchReport& report) {
  std::string text = absl::StrCat(absl::StrJoin(kColumns, ","), "\n");
  for (const BenchLevel& level : report.levels) {
    absl::StrAppend(&text, Line(level), "\n");
  }
  return text;
}

}  // namespace attention
