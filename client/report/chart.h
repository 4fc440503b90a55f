// Line charts for people: a picture, what it means, and the same numbers as a table.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "client/page/quantity.h"
#include "client/page/scale.h"

namespace attention {

enum class AxisKind {
  kLinear,
  kLog,
  /// Of shares of all requests: a value q lies at 1 / (1 - q) on a logarithmic axis, as in
  /// HdrHistogram's plots (Tene), so that each further nine gets as much room as the one before.
  kPercentile,
};

struct Axis {
  std::string title;
  Unit unit = Unit::kNumber;
  AxisKind kind = AxisKind::kLinear;
};

struct Point {
  double x = 0.0;
  /// NaN: nothing was measured here, and the line has a gap.
  double y = 0.0;
};

struct Series {
  std::string name;
  /// Ascending in x, which other series need not share.
  std::vector<Point> points;
  /// In pixels. Of lines that may cover each other the first to be drawn are the widest, and pale.
  double width = 2.0;
};

/// A horizontal line across the chart.
struct Limit {
  std::string name;
  double y = 0.0;
};

struct Chart {
  /// Of the HTML element; letters, digits and dashes.
  std::string id;
  std::string title;
  /// What to read from it, in a sentence or two.
  std::string note;
  Axis x_axis;
  /// Never kPercentile. Linear charts start at 0.
  Axis y_axis;
  /// What tables and read-outs call an x, where the axis' unit does not say it.
  std::map<double, std::string> x_names;
  std::vector<Series> series;
  std::vector<Limit> limits;
};

/// 0.999 becomes 1000: where a share lies on an axis of kPercentile, before its logarithm.
/// REQUIRES: share < 1.
double PercentilePlace(double share);
/// 1000 becomes "99.9%".
std::string PercentileText(double place);

/// Where any series has a point, ascending.
std::vector<double> PlacesOfX(const Chart& chart);

/// The lowest and the highest y, limits included; {0, 1} when there is none.
Range ExtentOf(const Chart& chart);

/// kLog where values are so far apart that a linear axis would hide the lower ones, and all are
/// above 0; else kLinear.
AxisKind KindFor(const Chart& chart);

/// A <figure> in a card: title, note, legend, one picture for wide and one for narrow windows, and
/// the table. Read-outs are up to kReportScript. A chart without values says so instead.
std::string ChartHtml(const Chart& chart);

}  // namespace attention
