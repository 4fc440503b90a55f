#include "client/report/load_charts.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/time/time.h"
#include "client/report/percentile_points.h"

namespace attention {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Slices with fewer answers are joined, as long as enough of them are left for a line.
constexpr double kLeastAnswers = 20.0;
constexpr size_t kLeastSlices = 20;

TimeSeries Readable(const LoadResult& result) {
  const std::vector<TimeSlice>& slices = result.series.slices();
  const auto num_slices = static_cast<double>(slices.size());
  const auto num_answers = static_cast<double>(std::max<int64_t>(1, result.answers));
  const auto most = static_cast<double>(std::max<size_t>(1, slices.size() / kLeastSlices));
  const double joined = std::clamp(std::ceil(kLeastAnswers * num_slices / num_answers), 1.0, most);
  TimeSeries series(result.series.slice() * joined);
  for (size_t i = 0; i < slices.size(); ++i) {
    series.At(result.series.slice() * (static_cast<double>(i) + 0.5)).Merge(slices[i]);
  }
  return series;
}

using SliceValue = double (*)(const TimeSlice&);

/// One point at the end of each slice: the value over the slice's length.
std::vector<Point> RatePoints(const LoadResult& result, SliceValue count) {
  std::vector<Point> points;
  const TimeSeries series = Readable(result);
  absl::Duration start = absl::ZeroDuration();
  for (const TimeSlice& slice : series.slices()) {
    const absl::Duration length = std::min(series.slice(), result.window - start);
    start += series.slice();
    // What came after the window fills no whole slice, and makes no rate.
    if (length > 0.5 * series.slice()) {
      points.push_back(
          {absl::ToDoubleSeconds(start), count(slice) / absl::ToDoubleSeconds(length)});
    }
  }
  return points;
}

std::vector<Point> LatencyPoints(const LoadResult& result, double percent) {
  std::vector<Point> points;
  const TimeSeries series = Readable(result);
  absl::Duration start = absl::ZeroDuration();
  for (const TimeSlice& slice : series.slices()) {
    start += series.slice();
    points.push_back(
        {absl::ToDoubleSeconds(start),
         slice.latency_ns.count() == 0 ? kNone : Seconds(slice.latency_ns.Percentile(percent))});
  }
  return points;
}

double Answers(const TimeSlice& slice) { return slice.answers; }
double Due(const TimeSlice& slice) { return slice.due; }
double Sent(const TimeSlice& slice) { return slice.sent; }
double Failed(const TimeSlice& slice) { return slice.errors + slice.not_sent; }

Chart OverTime(const char* id, const char* title, Axis y_axis) {
  return {.id = id,
          .title = title,
          .note = "",
          .x_axis = {.title = "since the measurement began", .unit = Unit::kSeconds},
          .y_axis = std::move(y_axis),
          .x_names = {},
          .series = {},
          .limits = {}};
}

Chart ByPercentile(const char* id, const char* title) {
  return {
      .id = id,
      .title = title,
      .note = "",
      .x_axis = {.title = "share of answers that took no longer", .kind = AxisKind::kPercentile},
      .y_axis = {.title = "time", .unit = Unit::kSeconds},
      .x_names = {},
      .series = {},
      .limits = {}};
}

}  // namespace

Chart LatencyChart(const std::vector<Curve>& curves) {
  Chart chart = ByPercentile("latency", "Latency by percentile");
  if (curves.size() > 1) {
    chart.note =
        "Latency of each. The further right, the rarer: each nine has as much room as the last.";
    for (const Curve& curve : curves) {
      AddPercentiles(curve.name, curve.level->result.latency_ns, chart);
    }
  } else {
    const LoadResult& result = curves.front().level->result;
    const bool is_decode = curves.front().subject->decode.has_value();
    chart.note = result.pace.has_value()
                     ? "Latency counts from when a request was due, service time from when it "
                       "was sent: the difference is waiting in the client."
                     : "Of a closed loop: it slows down with the server, so that users who "
                       "arrive regardless may wait longer.";
    AddPercentiles(is_decode ? "step" : "latency", result.latency_ns, chart);
    AddPercentiles("service time", result.service_ns, chart);
    AddPercentiles(is_decode ? "first token" : "first block", result.first_message_ns, chart);
    AddPercentiles("next block", result.message_gap_ns, chart);
  }
  chart.y_axis.kind = KindFor(chart);
  return chart;
}

Chart ThroughputChart(const std::vector<Curve>& curves) {
  Chart chart = OverTime("throughput", "Throughput over time", {.title = "requests/s"});
  if (curves.size() > 1) {
    chart.note = "Requests that were answered.";
    for (const Curve& curve : curves) {
      chart.series.push_back({curve.name, RatePoints(curve.level->result, Answers)});
    }
    return chart;
  }
  const LoadResult& result = curves.front().level->result;
  if (result.pace.has_value()) {
    chart.note =
        "Offered are due, whatever the server does; what is not sent when it is due has failed.";
    chart.series.push_back({"offered", RatePoints(result, Due), 9.0});
  }
  if (curves.front().subject->decode.has_value()) {
    chart.y_axis.title = "steps/s";
  } else {
    chart.series.push_back({"sent", RatePoints(result, Sent), 5.0});
  }
  chart.series.push_back({"answered", RatePoints(result, Answers)});
  chart.series.push_back({"failed", RatePoints(result, Failed)});
  return chart;
}

Chart LatencyOverTimeChart(const std::vector<Curve>& curves) {
  Chart chart = OverTime("latency-over-time", "Latency over time",
                         {.title = "latency", .unit = Unit::kSeconds});
  if (curves.size() > 1) {
    chart.note = "The 99th percentile of each.";
    for (const Curve& curve : curves) {
      chart.series.push_back({curve.name, LatencyPoints(curve.level->result, 99.0)});
    }
  } else {
    const LoadResult& result = curves.front().level->result;
    chart.note = result.pace.has_value()
                     ? "Of requests that were due at that time, whenever they were answered."
                     : "Of answers that arrived at that time. A gap: none did.";
    for (const auto& [name, percent] :
         {std::pair("p50", 50.0), {"p90", 90.0}, {"p99", 99.0}, {"max", 100.0}}) {
      chart.series.push_back({name, LatencyPoints(result, percent)});
    }
  }
  chart.y_axis.kind = KindFor(chart);
  return chart;
}

BarChart PhaseBars(const std::vector<Curve>& curves) {
  BarChart chart = {
      .id = "phases",
      .title = "Where the time went",
      .note =
          "Means, by the server's own account: the request's way in, waiting for a batch, "
          "computing; and what is left until the client had the answer.",
      .part_names = {"send", "queue", "compute", "receive"},
      .bars = {}};
  for (const Curve& curve : curves) {
    const LoadPhases& phases = curve.level->result.phases;
    if (phases.compute_ns.count() > 0) {
      chart.bars.push_back(
          {curve.name,
           {Seconds(phases.send_ns.mean()), Seconds(phases.queue_ns.mean()),
            Seconds(phases.compute_ns.mean()), Seconds(phases.receive_ns.mean())}});
    }
  }
  return chart;
}

Chart PhaseChart(const BenchLevel& level) {
  Chart chart = ByPercentile("phase-percentiles", "Where slow answers spent their time");
  chart.note = "Percentiles of each part on its own: they do not add up.";
  const LoadPhases& phases = level.result.phases;
  AddPercentiles("send", phases.send_ns, chart);
  AddPercentiles("queue", phases.queue_ns, chart);
  AddPercentiles("compute", phases.compute_ns, chart);
  AddPercentiles("receive", phases.receive_ns, chart);
  chart.y_axis.kind = KindFor(chart);
  return chart;
}

}  // namespace attention
