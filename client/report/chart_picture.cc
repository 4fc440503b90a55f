#include "client/report/chart_picture.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/page/color.h"
#include "client/page/scale.h"
#include "client/page/svg.h"

namespace attention {
namespace {

/// Of text in pictures, in their own units.
constexpr double kCharacterWidth = 7.2;
constexpr double kLineHeight = 16.0;

/// Lines that are wider are pale.
constexpr double kPlainWidth = 2.0;
/// So few are marked one by one.
constexpr size_t kFewPoints = 12;

struct Layout {
  double width;
  double height;
  int most_x_ticks;
  int most_y_ticks;
};
constexpr Layout kWideLayout = {.width = 960, .height = 340, .most_x_ticks = 11, .most_y_ticks = 7};
constexpr Layout kNarrowLayout = {
    .width = 360, .height = 280, .most_x_ticks = 5, .most_y_ticks = 6};

struct Ticks {
  std::vector<double> places;
  std::vector<std::string> texts;
};

/// Far enough around `extent` that a logarithm separates its ends.
Range LogDomain(Range extent) {
  return extent.low < extent.high ? extent
                                  : Range{.low = extent.low / 2.0, .high = extent.high * 2.0};
}

/// `places` are those of the chart, and there is one.
Range DomainOfX(const Chart& chart, const std::vector<double>& places) {
  const Range extent = {.low = places.front(), .high = places.back()};
  switch (chart.x_axis.kind) {
    case AxisKind::kPercentile:
      return {.low = 1.0, .high = std::max(extent.high, 2.0)};
    case AxisKind::kLog:
      return LogDomain(extent);
    case AxisKind::kLinear:
      break;
  }
  return extent.low < extent.high ? Range{.low = std::min(0.0, extent.low), .high = extent.high}
                                  : NiceRange(extent, 2);
}

Range DomainOfY(const Chart& chart, const Layout& layout) {
  const Range extent = ExtentOf(chart);
  if (chart.y_axis.kind == AxisKind::kLog) {
    const Range wide = LogDomain(extent);
    return {.low = wide.low / 1.15, .high = wide.high * 1.15};
  }
  return NiceRange({.low = 0.0, .high = extent.high}, layout.most_y_ticks);
}

/// 0%, 50%, 90%, 99%, ...
Ticks PercentileTicks(double highest) {
  Ticks ticks = {.places = {1.0, 2.0}, .texts = {}};
  for (double place = 10.0; place <= highest * (1.0 + 1e-9); place *= 10.0) {
    ticks.places.push_back(place);
  }
  for (const double place : ticks.places) {
    ticks.texts.push_back(PercentileText(place));
  }
  return ticks;
}

Ticks TicksOf(const Axis& axis, Range domain, int most) {
  if (axis.kind == AxisKind::kPercentile) {
    return PercentileTicks(domain.high);
  }
  const std::vector<double> places =
      axis.kind == AxisKind::kLog ? LogTicks(domain, most) : LinearTicks(domain, most);
  return {.places = places, .texts = TickTexts(places, axis.unit)};
}

Scale ScaleOf(const Axis& axis, Range domain, Range pixels) {
  return axis.kind == AxisKind::kLinear ? Scale::Linear(domain, pixels)
                                        : Scale::Log(domain, pixels);
}

double WidthOf(const std::vector<std::string>& texts) {
  size_t longest = 0;
  for (const std::string& text : texts) {
    longest = std::max(longest, text.size());
  }
  return kCharacterWidth * static_cast<double>(longest);
}

/// What is drawn where.
struct Plot {
  Scale x;
  Scale y;
  Ticks x_ticks;
  Ticks y_ticks;
};

Plot PlotOf(const Chart& chart, const std::vector<double>& places, const Layout& layout) {
  const Range domain_x = DomainOfX(chart, places);
  const Range domain_y = DomainOfY(chart, layout);
  Ticks x_ticks = TicksOf(chart.x_axis, domain_x, layout.most_x_ticks);
  Ticks y_ticks = TicksOf(chart.y_axis, domain_y, layout.most_y_ticks);
  const Range across = {.low = WidthOf(y_ticks.texts) + 8.0, .high = layout.width - 24.0};
  const Range down = {.low = layout.height - 2.6 * kLineHeight, .high = 1.8 * kLineHeight};
  return {.x = ScaleOf(chart.x_axis, domain_x, across),
          .y = ScaleOf(chart.y_axis, domain_y, down),
          .x_ticks = std::move(x_ticks),
          .y_ticks = std::move(y_ticks)};
}

void DrawYAxis(const Chart& chart, const Plot& plot, Svg& svg) {
  const Range across = plot.x.pixels();
  for (size_t i = 0; i < plot.y_ticks.places.size(); ++i) {
    const double y = plot.y.At(plot.y_ticks.places[i]);
    svg.Add("line",
            {{"class", "grid"}, {"x1", across.low}, {"x2", across.high}, {"y1", y}, {"y2", y}});
    svg.Text(plot.y_ticks.texts[i],
             {{"class", "tick"}, {"x", across.low - 6.0}, {"y", y + 4.0}, {"text-anchor", "end"}});
  }
  svg.Text(chart.y_axis.kind == AxisKind::kLog ? absl::StrCat(chart.y_axis.title, " (log scale)")
                                               : chart.y_axis.title,
           {{"class", "tick"}, {"x", 0}, {"y", 12}});
}

/// Texts that would run into the one before are left out.
void DrawXAxis(const Chart& chart, const Plot& plot, Svg& svg) {
  const Range down = plot.y.pixels();
  double free_from = 0.0;
  for (size_t i = 0; i < plot.x_ticks.places.size(); ++i) {
    const double x = plot.x.At(plot.x_ticks.places[i]);
    const double half = 0.5 * kCharacterWidth * static_cast<double>(plot.x_ticks.texts[i].size());
    svg.Add("line", {{"class", "grid"}, {"x1", x}, {"x2", x}, {"y1", down.low}, {"y2", down.high}});
    if (x - half >= free_from) {
      svg.Text(
          plot.x_ticks.texts[i],
          {{"class", "tick"}, {"x", x}, {"y", down.low + kLineHeight}, {"text-anchor", "middle"}});
      free_from = x + half + kCharacterWidth;
    }
  }
  svg.Text(chart.x_axis.title, {{"class", "tick"},
                                {"x", plot.x.pixels().high},
                                {"y", down.low + 2.2 * kLineHeight},
                                {"text-anchor", "end"}});
}

void DrawPoint(const Plot& plot, const Point& point, const std::string& color, Svg& svg) {
  svg.Add("circle", {{"class", "point " + color},
                     {"cx", plot.x.At(point.x)},
                     {"cy", plot.y.At(point.y)},
                     {"r", 3}});
}

void DrawLine(const Chart& chart, const Plot& plot, size_t index, Svg& svg) {
  const auto& [name, points, width] = chart.series[index];
  const std::string color = SeriesClass(index);
  SvgPath path;
  for (size_t i = 0; i < points.size(); ++i) {
    if (std::isnan(points[i].y)) {
      path.Break();
      continue;
    }
    path.To(plot.x.At(points[i].x), plot.y.At(points[i].y));
    const bool starts = i == 0 || std::isnan(points[i - 1].y);
    const bool ends = i + 1 == points.size() || std::isnan(points[i + 1].y);
    // A line through one point has no length.
    if (points.size() <= kFewPoints || (starts && ends)) {
      DrawPoint(plot, points[i], color, svg);
    }
  }
  svg.Add("path", {{"class", "line " + color},
                   {"d", path.text()},
                   {"stroke-width", width},
                   {"stroke-opacity", width > kPlainWidth ? 0.45 : 1.0}});
}

void DrawLimit(const Limit& limit, const Plot& plot, Svg& svg) {
  const Range across = plot.x.pixels();
  const double y = plot.y.At(limit.y);
  svg.Add("line",
          {{"class", "limit"}, {"x1", across.low}, {"x2", across.high}, {"y1", y}, {"y2", y}});
  svg.Text(limit.name,
           {{"class", "limit-name"}, {"x", across.high}, {"y", y - 5.0}, {"text-anchor", "end"}});
}

}  // namespace

std::string SeriesClass(size_t index) {
  const size_t num_colors = LightTheme().series.size();
  return absl::StrCat("series-", index % num_colors + 1, index < num_colors ? "" : " again");
}

std::string ChartPicture(const Chart& chart, PictureSize size) {
  const bool is_wide = size == PictureSize::kWide;
  const Layout& layout = is_wide ? kWideLayout : kNarrowLayout;
  const std::vector<double> places = PlacesOfX(chart);
  const Plot plot = PlotOf(chart, places, layout);
  const std::string pixels = absl::StrJoin(places, " ", [&plot](std::string* text, double x) {
    absl::StrAppend(text, SvgAttribute::Text(plot.x.At(x)));
  });
  Svg svg(layout.width, layout.height,
          absl::StrCat(chart.title, ": ", chart.y_axis.title, " by ", chart.x_axis.title,
                       "; the numbers are in the table below"));
  svg.Open("g", {{"class", "plot"},
                 {"data-x", pixels},
                 {"data-top", plot.y.pixels().high},
                 {"data-bottom", plot.y.pixels().low}});
  DrawYAxis(chart, plot, svg);
  DrawXAxis(chart, plot, svg);
  for (const Limit& limit : chart.limits) {
    DrawLimit(limit, plot, svg);
  }
  for (size_t i = 0; i < chart.series.size(); ++i) {
    DrawLine(chart, plot, i, svg);
  }
  svg.Close();
  return absl::StrCat("<div class=\"", is_wide ? "wide" : "narrow", "\">", svg.Inline(),
                      "</div>\n");
}

}  // namespace attention
