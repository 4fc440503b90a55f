#include "client/report/bars.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "client/page/escape.h"
#include "client/page/svg.h"
#include "client/report/chart_picture.h"

namespace attention {
namespace {

/// Stretched to the width of its place.
constexpr double kBarWidth = 1000.0;
constexpr double kBarHeight = 22.0;

double SumOf(const Bar& bar) { return std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0); }

std::string Picture(const BarChart& chart, const Bar& bar, double longest) {
  Svg svg(kBarWidth, kBarHeight,
          absl::StrCat(bar.name, ": ", QuantityText(SumOf(bar), chart.unit)));
  double start = 0.0;
  for (size_t i = 0; i < bar.parts.size(); ++i) {
    const double width = longest == 0.0 ? 0.0 : kBarWidth * bar.parts[i] / longest;
    svg.Open("rect", {{"class", absl::StrCat("part ", SeriesClass(i))},
                      {"x", start},
                      {"width", width},
                      {"height", kBarHeight}});
    svg.Title(absl::StrCat(chart.part_names[i], ": ", QuantityText(bar.parts[i], chart.unit)));
    svg.Close();
    start += width;
  }
  return svg.Inline(Svg::Fit::kStretch);
}

std::string Legend(const BarChart& chart) {
  std::string html = "<ul class=\"legend\">";
  for (size_t i = 0; i < chart.part_names.size(); ++i) {
    absl::StrAppend(&html, "<li><svg class=\"swatch\" viewBox=\"0 0 24 8\" aria-hidden=\"true\">",
                    "<rect class=\"part ", SeriesClass(i), "\" width=\"24\" height=\"8\"/></svg>",
                    EscapeHtml(chart.part_names[i]), "</li>");
  }
  return absl::StrCat(html, "</ul>\n");
}

std::string Table(const BarChart& chart) {
  std::string html =
      "<details><summary>Numbers</summary><div class=\"scroll\"><table>\n<thead><tr><th></th>";
  for (const std::string& name : chart.part_names) {
    absl::StrAppend(&html, "<th scope=\"col\">", EscapeHtml(name), "</th>");
  }
  html += "<th scope=\"col\">together</th></tr></thead>\n<tbody>\n";
  for (const Bar& bar : chart.bars) {
    absl::StrAppend(&html, "<tr><th scope=\"row\"><bdi>", EscapeHtml(bar.name), "</bdi></th>");
    for (const double part : bar.parts) {
      absl::StrAppend(&html, "<td>", QuantityText(part, chart.unit, 4), "</td>");
    }
    absl::StrAppend(&html, "<td>", QuantityText(SumOf(bar), chart.unit, 4), "</td></tr>\n");
  }
  return absl::StrCat(html, "</tbody></table></div></details>\n");
}

}  // namespace

std::string BarChartHtml(const BarChart& chart) {
  double longest = 0.0;
  for (const Bar& bar : chart.bars) {
    longest = std::max(longest, SumOf(bar));
  }
  std::string html =
      absl::StrCat("<figure class=\"card bars\" id=\"", chart.id, "\">\n<figcaption><h2>",
                   EscapeHtml(chart.title), "</h2><p class=\"muted\">", EscapeHtml(chart.note),
                   "</p></figcaption>\n", Legend(chart));
  for (const Bar& bar : chart.bars) {
    absl::StrAppend(&html, "<div class=\"bar\"><p><bdi>", EscapeHtml(bar.name),
                    "</bdi> <span class=\"muted\">", QuantityText(SumOf(bar), chart.unit),
                    "</span></p>", Picture(chart, bar, longest), "</div>\n");
  }
  return absl::StrCat(html, Table(chart), "</figure>\n");
}

}  // namespace attention
