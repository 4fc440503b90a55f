#include "client/report/chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/page/escape.h"
#include "client/page/scale.h"
#include "client/report/chart_picture.h"

namespace attention {
namespace {

/// How far apart values lie that share a linear axis, at most.
constexpr double kFarApart = 30.0;

std::string Legend(const Chart& chart) {
  std::string html = "<ul class=\"legend\">";
  for (size_t i = 0; i < chart.series.size(); ++i) {
    absl::StrAppend(&html, "<li><svg class=\"swatch\" viewBox=\"0 0 24 8\" aria-hidden=\"true\">",
                    "<path class=\"", SeriesClass(i), "\" d=\"M1,4L23,4\"/></svg><bdi>",
                    EscapeHtml(chart.series[i].name), "</bdi></li>");
  }
  return absl::StrCat(html, "</ul>\n");
}

std::string TextOfX(const Chart& chart, double x) {
  if (const auto name = chart.x_names.find(x); name != chart.x_names.end()) {
    return name->second;
  }
  return chart.x_axis.kind == AxisKind::kPercentile ? PercentileText(x)
                                                    : QuantityText(x, chart.x_axis.unit, 4);
}

std::string TableRow(const Chart& chart, double x) {
  std::string row =
      absl::StrCat("<tr><th scope=\"row\"><bdi>", EscapeHtml(TextOfX(chart, x)), "</bdi></th>");
  for (const Series& series : chart.series) {
    const auto point = std::lower_bound(series.points.begin(), series.points.end(), x,
                                        [](const Point& a, double b) { return a.x < b; });
    const bool has_value = point != series.points.end() && point->x == x && !std::isnan(point->y);
    absl::StrAppend(&row, "<td>", has_value ? QuantityText(point->y, chart.y_axis.unit, 4) : "",
                    "</td>");
  }
  return absl::StrCat(row, "</tr>\n");
}

std::string Table(const Chart& chart) {
  std::string html = absl::StrCat(
      "<details><summary>Numbers</summary><div class=\"scroll\"><table>\n<thead><tr><th "
      "scope=\"col\">",
      EscapeHtml(chart.x_axis.title), "</th>");
  for (const Series& series : chart.series) {
    absl::StrAppend(&html, "<th scope=\"col\"><bdi>", EscapeHtml(series.name), "</bdi></th>");
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const double x : PlacesOfX(chart)) {
    html += TableRow(chart, x);
  }
  return absl::StrCat(html, "</tbody></table></div></details>\n");
}

bool HasValues(const Chart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(), [](const Series& series) {
    return std::any_of(series.points.begin(), series.points.end(),
                       [](const Point& point) { return !std::isnan(point.y); });
  });
}

}  // namespace

double PercentilePlace(double share) { return 1.0 / (1.0 - share); }

std::string PercentileText(double place) {
  const double percent = 100.0 * (1.0 - 1.0 / place);
  // As many decimals as there are nines beyond the first two, and one more.
  const int nines = static_cast<int>(std::floor(std::log10(place) + 1e-9));
  std::string text = absl::StrFormat("%.*f", std::max(0, nines - 1) + 1, percent);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') {
    text.pop_back();
  }
  return absl::StrCat(text, "%");
}

std::vector<double> PlacesOfX(const Chart& chart) {
  std::vector<double> places;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      places.push_back(point.x);
    }
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

Range ExtentOf(const Chart& chart) {
  Range extent = {.low = HUGE_VAL, .high = -HUGE_VAL};
  const auto include = [&extent](double y) {
    if (!std::isnan(y)) {
      extent = {.low = std::min(extent.low, y), .high = std::max(extent.high, y)};
    }
  };
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      include(point.y);
    }
  }
  for (const Limit& limit : chart.limits) {
    include(limit.y);
  }
  return extent.low <= extent.high ? extent : Range{};
}

AxisKind KindFor(const Chart& chart) {
  const Range extent = ExtentOf(chart);
  return extent.low > 0.0 && extent.high > kFarApart * extent.low ? AxisKind::kLog
                                                                  : AxisKind::kLinear;
}

std::string ChartHtml(const Chart& chart) {
  std::string html = absl::StrCat("<figure class=\"card chart\" id=\"", chart.id,
                                  "\">\n<figcaption><h2>", EscapeHtml(chart.title), "</h2>");
  if (!chart.note.empty()) {
    absl::StrAppend(&html, "<p class=\"muted\">", EscapeHtml(chart.note), "</p>");
  }
  html += "</figcaption>\n";
  if (!HasValues(chart)) {
    return absl::StrCat(html, "<p>There is nothing to draw: no value was measured.</p></figure>\n");
  }
  return absl::StrCat(
      html, Legend(chart), "<div class=\"pictures\">\n", ChartPicture(chart, PictureSize::kWide),
      ChartPicture(chart, PictureSize::kNarrow), "</div>\n", Table(chart), "</figure>\n");
}

}  // namespace attention
