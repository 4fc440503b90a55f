// What a load run counted, as charts.
#pragma once

#include <string>
#include <vector>

#include "client/report/bars.h"
#include "client/report/chart.h"
#include "client/report/curves.h"

namespace attention {

/// Times by percentile: of several curves their latencies; of one its latency, service time, first
/// block and gap between blocks, as far as it has them.
Chart LatencyChart(const std::vector<Curve>& curves);

/// Requests a second over time: of several curves those that were answered; of one those that were
/// offered, sent, answered and failed.
Chart ThroughputChart(const std::vector<Curve>& curves);

/// Latency over time: of several curves the 99th percentile; of one several percentiles.
Chart LatencyOverTimeChart(const std::vector<Curve>& curves);

/// What the time of a mean answer was spent on.
BarChart PhaseBars(const std::vector<Curve>& curves);
/// Percentiles of each of those times.
Chart PhaseChart(const BenchLevel& level);

/// Latency and throughput by the level of load: of several reports one line each.
Chart LatencyByLevelChart(const std::vector<NamedReport>& reports);
Chart ThroughputByLevelChart(const std::vector<NamedReport>& reports);

}  // namespace attention
