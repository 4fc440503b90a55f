#include "client/report/summary.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/load/load_rates.h"
#include "client/load/report_parts.h"
#include "client/page/escape.h"
#include "client/page/quantity.h"
#include "client/report/curves.h"
#include "client/report/percentile_points.h"

namespace attention {
namespace {

std::string Cell(const std::string& text) {
  return absl::StrCat("<td>", EscapeHtml(text), "</td>");
}

std::string Number(double value) { return QuantityText(value, Unit::kNumber, 4); }

/// Percentiles that single answers decide say nothing.
std::string PercentileCell(const Histogram& latency, double percent) {
  return Cell(IsBackedUp(latency, percent)
                  ? QuantityText(Seconds(latency.Percentile(percent)), Unit::kSeconds)
                  : "-");
}

std::string LevelRow(const std::string& name, const BenchLevel& level) {
  const LoadResult& result = level.result;
  const LoadRates rates = RatesOf(result);
  std::string row =
      absl::StrCat("<tr><th scope=\"row\"><bdi>", EscapeHtml(name), "</bdi></th>",
                   Cell(Number(rates.requests_per_s)), Cell(Number(rates.tokens_per_s)),
                   Cell(QuantityText(Seconds(result.latency_ns.mean()), Unit::kSeconds)));
  for (const Quantile& quantile : kQuantiles) {
    row += PercentileCell(result.latency_ns, quantile.percent);
  }
  return absl::StrCat(row, Cell(QuantityText(Seconds(result.latency_ns.max()), Unit::kSeconds)),
                      Cell(absl::StrCat(NumFailures(result.failures))),
                      Cell(QuantityText(level.stability.throughput_cv, Unit::kShare, 2)),
                      Cell(QuantityText(result.client_cpu_share, Unit::kShare, 2)), "</tr>\n");
}

using Facts = std::vector<std::pair<std::string, std::string>>;

/// Lists as words; whatever it is, since it may come from a file.
std::string ValueText(const nlohmann::json& value) {
  if (value.is_array()) {
    return absl::StrJoin(value, " ", [](std::string* text, const nlohmann::json& item) {
      absl::StrAppend(text, ValueText(item));
    });
  }
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', true);
}

/// "cpu Xeon; cpus 2; isa avx2 fma".
std::string MachineText(const nlohmann::json& machine) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : machine.items()) {
    parts.push_back(absl::StrCat(key, " ", ValueText(value)));
  }
  return absl::StrJoin(parts, "; ");
}

std::string WindowText(const BenchReport& report) {
  const LoadOptions& options = report.levels.front().options;
  return absl::StrCat(
      absl::FormatDuration(absl::Trunc(report.levels.front().result.window, absl::Milliseconds(1))),
      " after ", absl::FormatDuration(options.warmup), " of warm-up, timeout ",
      absl::FormatDuration(options.timeout), ", seed ", options.seed);
}

std::string LoadsText(const BenchReport& report) {
  const std::string first = LoadText(report.subject, report.levels.front().options);
  return report.levels.size() == 1
             ? first
             : absl::StrCat(report.levels.size(), " levels, the first a ", first);
}

Facts FactsOf(const BenchReport& report) {
  const LoadOptions& options = report.levels.front().options;
  std::vector<std::string> tags;
  for (const auto& [key, value] : report.tags) {
    tags.push_back(absl::StrCat(key, "=", value));
  }
  Facts facts = {
      {"Request", SubjectText(report.subject)},
      {"Lengths", report.subject.lengths},
      {"Load", LoadsText(report)},
      {"Server", absl::StrFormat("%s, %d connection%s", options.connection.server,
                                 options.connections, options.connections == 1 ? "" : "s")},
      {"Measured", WindowText(report)},
      {"Started", absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", report.levels.front().result.started,
                                   absl::UTCTimeZone())},
      {"Tags", absl::StrJoin(tags, ", ")},
      {"Client", MachineText(report.machine)},
      {"Command", report.command}};
  std::erase_if(facts, [](const auto& fact) { return fact.second.empty(); });
  return facts;
}

std::string FactsList(const Facts& facts) {
  std::string html = "<dl>\n";
  for (const auto& [name, text] : facts) {
    absl::StrAppend(
        &html, "<dt>", EscapeHtml(name), "</dt><dd><bdi>",
        name == "Command" ? absl::StrCat("<code>", EscapeHtml(text), "</code>") : EscapeHtml(text),
        "</bdi></dd>\n");
  }
  return absl::StrCat(html, "</dl>\n");
}

}  // namespace

std::string KeyFiguresHtml(const std::vector<NamedReport>& reports) {
  std::string html =
      "<section class=\"card\" id=\"figures\"><h2>Key figures</h2>\n<div class=\"scroll\"><table>\n"
      "<thead><tr><th></th><th scope=\"col\">answers/s</th><th scope=\"col\">tokens/s</th><th "
      "scope=\"col\">mean</th>";
  for (const Quantile& quantile : kQuantiles) {
    absl::StrAppend(&html, "<th scope=\"col\">", quantile.name, "</th>");
  }
  html +=
      "<th scope=\"col\">max</th><th scope=\"col\">failed</th><th scope=\"col\">varies</th><th "
      "scope=\"col\">client</th></tr></thead>\n<tbody>\n";
  for (const NamedReport& run : reports) {
    for (const BenchLevel* level : SortedLevels(run.report)) {
      html += LevelRow(
          reports.size() == 1 ? LevelName(*level) : absl::StrCat(run.name, ", ", LevelName(*level)),
          *level);
    }
  }
  return absl::StrCat(
      html,
      "</tbody></table></div>\n<p class=\"muted\">Times are latencies; \"varies\" is "
      "the coefficient of variation of throughput over time, \"client\" what it "
      "used of one core. A dash: too few answers for that percentile.</p></section>\n");
}

std::string FactsHtml(const std::vector<NamedReport>& reports) {
  std::string html = "<section class=\"card\" id=\"facts\"><h2>What was measured</h2>\n";
  for (const NamedReport& run : reports) {
    if (reports.size() > 1) {
      absl::StrAppend(&html, "<h3><bdi>", EscapeHtml(run.name), "</bdi></h3>\n");
    }
    html += FactsList(FactsOf(run.report));
  }
  return absl::StrCat(html, "</section>\n");
}

}  // namespace attention
