// Histograms as lines.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "client/load/histogram.h"
#include "client/report/chart.h"

namespace attention {

inline double Seconds(double nanoseconds) { return nanoseconds / 1e9; }

/// Of `nanoseconds` in seconds, for an axis of kPercentile: round percentiles, ever closer to all
/// as far as there are values to tell them apart, and at last the highest value, at the place of
/// its own share: 1 - 1 / count.
std::vector<Point> PercentilePoints(const Histogram& nanoseconds);

/// Adds a line, and the name of its last point, to `chart`; nothing for an empty histogram.
void AddPercentiles(const std::string& name, const Histogram& nanoseconds, Chart& chart);

}  // namespace attention
