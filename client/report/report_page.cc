#include "client/report/report_page.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "client/page/escape.h"
#include "client/page/page.h"
#include "client/report/load_charts.h"
#include "client/report/summary.h"

namespace attention {

extern const Asset kReportStyle;
extern const Asset kReportScript;

namespace {

std::string Title(const std::vector<NamedReport>& reports) {
  if (reports.size() > 1) {
    return absl::StrCat("attend bench: ", reports.size(), " runs compared");
  }
  const BenchSubject& subject = reports.front().report.subject;
  return absl::StrCat("attend bench: ", subject.model.empty() ? subject.request : subject.model);
}

std::string Verdict(const NamedReport& run, bool is_named) {
  const bool succeeded = Succeeded(run.report);
  return absl::StrCat("<section class=\"card verdict\"><h2>", is_named ? "<bdi>" : "",
                      is_named ? absl::StrCat(EscapeHtml(run.name), "</bdi>: ") : "",
                      "<span class=\"", succeeded ? "passed\">Passed" : "failed\">Failed",
                      "</span></h2>\n", VerdictHtml(run.report), "</section>\n");
}

/// Whether there are several levels, and all of one kind: requests a second and requests under way
/// share no axis.
bool HasLevels(const std::vector<NamedReport>& reports) {
  const auto is_open = [](const NamedReport& run) {
    return run.report.levels.front().options.open_loop.has_value();
  };
  const auto num_open = std::count_if(reports.begin(), reports.end(), is_open);
  return (num_open == 0 || num_open == std::ssize(reports)) &&
         std::any_of(reports.begin(), reports.end(),
                     [](const NamedReport& run) { return run.report.levels.size() > 1; });
}

std::string Charts(const std::vector<NamedReport>& reports) {
  const std::vector<Curve> curves = CurvesOf(reports);
  std::string html;
  if (HasLevels(reports)) {
    absl::StrAppend(&html, ChartHtml(LatencyByLevelChart(reports)),
                    ChartHtml(ThroughputByLevelChart(reports)));
  }
  absl::StrAppend(&html, ChartHtml(LatencyChart(curves)), ChartHtml(ThroughputChart(curves)),
                  ChartHtml(LatencyOverTimeChart(curves)));
  if (const BarChart bars = PhaseBars(curves); !bars.bars.empty()) {
    html += BarChartHtml(bars);
    if (curves.size() == 1) {
      html += ChartHtml(PhaseChart(*curves.front().level));
    }
  }
  return html;
}

}  // namespace

std::string ReportPage(const std::vector<NamedReport>& reports) {
  const std::string title = Title(reports);
  std::string body = absl::StrCat("<h1><bdi>", EscapeHtml(title), "</bdi></h1>\n");
  for (const NamedReport& run : reports) {
    body += Verdict(run, reports.size() > 1);
  }
  absl::StrAppend(&body, KeyFiguresHtml(reports), Charts(reports), FactsHtml(reports));
  return PageHtml({.title = title,
                   .body = body,
                   .styles = {&kReportStyle},
                   .scripts = {&kReportScript},
                   .data = nullptr});
}

}  // namespace attention
