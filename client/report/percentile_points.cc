#include "client/report/percentile_points.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace attention {
namespace {

/// 0, 20, 40, 50, 60, 70, 75, 80 and 85%, and the same of what is left, and so on: 90, 92, ...
constexpr std::array kPlaces = {1.0, 1.25, 1.0 / 0.6, 2.0, 2.5, 1.0 / 0.3, 4.0, 5.0, 1.0 / 0.15};

}  // namespace

std::vector<Point> PercentilePoints(const Histogram& nanoseconds) {
  std::vector<Point> points;
  const auto last = static_cast<double>(nanoseconds.count());
  for (double power = 1.0; power < last; power *= 10.0) {
    for (const double factor : kPlaces) {
      const double place = factor * power;
      if (place < last) {
        const double percent = 100.0 * (1.0 - 1.0 / place);
        points.push_back({place, Seconds(nanoseconds.Percentile(percent))});
      }
    }
  }
  points.push_back({last, Seconds(nanoseconds.max())});
  return points;
}

void AddPercentiles(const std::string& name, const Histogram& nanoseconds, Chart& chart) {
  if (nanoseconds.count() == 0) {
    return;
  }
  chart.series.push_back({.name = name, .points = PercentilePoints(nanoseconds)});
  chart.x_names[static_cast<double>(nanoseconds.count())] =
      absl::StrCat("max of ", nanoseconds.count());
}

}  // namespace attention
