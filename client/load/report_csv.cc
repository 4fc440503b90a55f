#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/load/load_result.h"
#include "client/load/report.h"

namespace attention {
namespace {

std::string Microseconds(double nanoseconds) { return absl::StrFormat("%.0f", nanoseconds / 1e3); }

std::string PercentileText(const Histogram& nanoseconds, double percent) {
  return nanoseconds.IsEnoughFor(percent)
             ? Microseconds(static_cast<double>(nanoseconds.Percentile(percent)))
             : "";
}

std::string MeanText(const Histogram& nanoseconds) {
  return nanoseconds.count() == 0 ? "" : Microseconds(nanoseconds.mean());
}

/// The columns, and what stands in them on the line of `level`.
std::vector<std::pair<const char*, std::string>> CellsOf(const BenchLevel& level) {
  const LoadResult& result = level.result;
  const LoadRates rates = RatesOf(result);
  const bool is_open = level.options.open_loop.has_value();
  const auto rate = [](double per_s) { return absl::StrFormat("%.3f", per_s); };
  const Histogram& latency = result.latency_ns;
  const double wire_ns = result.phases.receive_ns.mean() + result.phases.return_ns.mean();
  return {
      {"Concurrency", is_open ? "" : absl::StrCat(level.options.concurrency)},
      {"Request Rate", is_open ? absl::StrFormat("%.6g", LevelValue(level.options)) : ""},
      {"Inferences/Second", rate(rates.requests_per_s)},
      {"Client Send", is_open ? MeanText(result.pace->lag_ns) : ""},
      {"Network+Server Send/Recv", result.accounts == 0 ? "" : Microseconds(wire_ns)},
      {"Server Queue", MeanText(result.phases.queue_ns)},
      {"Server Compute Infer", MeanText(result.phases.compute_ns)},
      {"p50 latency", PercentileText(latency, 50)},
      {"p90 latency", PercentileText(latency, 90)},
      {"p95 latency", PercentileText(latency, 95)},
      {"p99 latency", PercentileText(latency, 99)},
      {"Avg latency", MeanText(latency)},
      {"p99.9 latency", PercentileText(latency, 99.9)},
      {"p99.99 latency", PercentileText(latency, 99.99)},
      {"Max latency", latency.count() == 0 ? "" : Microseconds(static_cast<double>(latency.max()))},
      {"Offered/Second", is_open ? rate(rates.offered_per_s) : ""},
      {"Sent/Second", is_open ? rate(rates.sent_per_s) : ""},
      {"Tokens/Second", rate(rates.tokens_per_s)},
      {"Answers", absl::StrCat(result.answers)},
      {"Errors", absl::StrCat(NumFailures(result.failures))},
      {"First block p50", PercentileText(result.first_message_ns, 50)},
      {"First block p99", PercentileText(result.first_message_ns, 99)},
      {"Token p50", PercentileText(result.token_ns, 50)},
      {"Token p99", PercentileText(result.token_ns, 99)},
      {"Stable",
       level.stability.is_stable.has_value() ? (*level.stability.is_stable ? "1" : "0") : ""},
      {"Met", MeetsTargets(level) ? "1" : "0"},
  };
}

}  // namespace

std::string ToCsv(const BenchReport& report) {
  std::string text;
  for (const BenchLevel& level : report.levels) {
    std::vector<std::string> columns, values;
    for (const auto& [column, value] : CellsOf(level)) {
      columns.push_back(column);
      values.push_back(value);
    }
    absl::StrAppend(&text, text.empty() ? absl::StrJoin(columns, ",") + "\n" : "",
                    absl::StrJoin(values, ","), "\n");
  }
  return text;
}

}  // namespace attention
