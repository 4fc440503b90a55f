// What times consist of: one bar for each of several, cut into parts.
#pragma once

#include <string>
#include <vector>

#include "client/page/quantity.h"

namespace attention {

struct Bar {
  std::string name;
  /// One for each part; none is negative.
  std::vector<double> parts;
};

struct BarChart {
  /// Of the HTML element; letters, digits and dashes.
  std::string id;
  std::string title;
  std::string note;
  Unit unit = Unit::kSeconds;
  std::vector<std::string> part_names;
  std::vector<Bar> bars;
};

/// A <figure> in a card, as ChartHtml makes it: legend, bars on one scale, and the table.
std::string BarChartHtml(const BarChart& chart);

}  // namespace attention
