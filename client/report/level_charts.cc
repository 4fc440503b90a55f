#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/load/load_rates.h"
#include "client/load/report_parts.h"
#include "client/report/load_charts.h"
#include "client/report/percentile_points.h"

namespace attention {
namespace {

using ValueOfLevel = std::function<double(const LoadResult&)>;

ValueOfLevel LatencyAt(double percent) {
  return [percent](const LoadResult& result) {
    return IsBackedUp(result.latency_ns, percent) ? Seconds(result.latency_ns.Percentile(percent))
                                                  : std::nan("");
  };
}

Series ByLevel(const std::string& name, const BenchReport& report, const ValueOfLevel& value) {
  Series series = {.name = name, .points = {}};
  for (const BenchLevel* level : SortedLevels(report)) {
    const Point point = {LevelValue(level->options), value(level->result)};
    // Of a level that ran more than once, what it did last.
    if (!series.points.empty() && series.points.back().x == point.x) {
      series.points.pop_back();
    }
    series.points.push_back(point);
  }
  return series;
}

bool IsOpen(const BenchReport& report) {
  return report.levels.front().options.open_loop.has_value();
}

Chart LevelChart(const char* id, const std::vector<NamedReport>& reports) {
  const BenchReport& first = reports.front().report;
  const bool is_open = IsOpen(first);
  return {.id = id,
          .title = "",
          .note = "",
          .x_axis = {.title = is_open ? "offered requests/s" : "requests under way"},
          .y_axis = {},
          .x_names = {},
          .series = {},
          .limits = {}};
}

}  // namespace

Chart LatencyByLevelChart(const std::vector<NamedReport>& reports) {
  Chart chart = LevelChart("latency-by-load", reports);
  chart.title = "Latency by load";
  chart.y_axis = {.title = "latency", .unit = Unit::kSeconds};
  if (reports.size() > 1) {
    chart.note = "The 99th percentile of each.";
    for (const NamedReport& run : reports) {
      chart.series.push_back(ByLevel(run.name, run.report, LatencyAt(99.0)));
    }
  } else {
    for (const auto& [name, percent] :
         {std::pair("p50", 50.0), {"p90", 90.0}, {"p99", 99.0}, {"p99.9", 99.9}}) {
      Series series = ByLevel(name, reports.front().report, LatencyAt(percent));
      if (std::any_of(series.points.begin(), series.points.end(),
                      [](const Point& point) { return !std::isnan(point.y); })) {
        chart.series.push_back(std::move(series));
      }
    }
  }
  for (const SloTarget& target : reports.front().report.slo) {
    if (target.of != SloTarget::Of::kErrors) {
      chart.limits.push_back({target.text, target.limit / 1e3});
    }
  }
  chart.y_axis.kind = KindFor(chart);
  return chart;
}

Chart ThroughputByLevelChart(const std::vector<NamedReport>& reports) {
  Chart chart = LevelChart("throughput-by-load", reports);
  chart.title = "Throughput by load";
  chart.y_axis = {.title = "requests/s"};
  const ValueOfLevel answered = [](const LoadResult& result) {
    return RatesOf(result).requests_per_s;
  };
  if (reports.size() == 1 && IsOpen(reports.front().report)) {
    chart.note = "Where answered falls below offered, the server no longer keeps up.";
    chart.series.push_back(ByLevel("offered", reports.front().report, [](const LoadResult& result) {
      return RatesOf(result).offered_per_s;
    }));
    chart.series.back().width = 7.0;
  }
  for (const NamedReport& run : reports) {
    chart.series.push_back(
        ByLevel(reports.size() == 1 ? "answered" : run.name, run.report, answered));
  }
  return chart;
}

}  // namespace attention
