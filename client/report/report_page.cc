#include "client/report/report_page.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/load/report.h"
#include "client/page/asset.h"
#include "client/page/escape.h"
#include "client/page/page.h"

namespace attention {

extern const Asset kReportStyle;
extern const Asset kReportResultsScript;
extern const Asset kReportScript;

namespace {

std::string Title(const std::vector<NamedReport>& reports) {
  if (reports.size() > 1) {
    return absl::StrCat("attend bench: ", reports.size(), " runs compared");
  }
  const BenchSubject& subject = reports.front().report.subject;
  return absl::StrCat("attend bench: ", subject.model.empty() ? subject.request : subject.model);
}

/// "cpu Xeon; cpus 2; isa avx2 fma"; whatever it is, since it may come from a file.
std::string MachineText(const nlohmann::json& machine) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : machine.items()) {
    parts.push_back(absl::StrCat(
        key, " ", value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', true)));
  }
  return absl::StrJoin(parts, "; ");
}

/// What the text of a report leaves out.
std::string FactsHtml(const BenchReport& report) {
  const LoadOptions& options = report.levels.front().options;
  const std::pair<const char*, std::string> facts[] = {
      {"Measured",
       absl::StrCat("after ", absl::FormatDuration(options.warmup), " of warm-up, timeout ",
                    absl::FormatDuration(options.timeout), ", seed ", options.seed)},
      {"Started", absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", report.levels.front().result.started,
                                   absl::UTCTimeZone())},
      {"Tags", absl::StrJoin(report.tags, ", ", absl::PairFormatter("="))},
      {"Client", MachineText(report.machine)},
      {"Command", report.command}};
  std::string html = "<dl>\n";
  for (const auto& [name, text] : facts) {
    if (!text.empty()) {
      absl::StrAppend(&html, "<dt>", name, "</dt><dd><bdi>", EscapeHtml(text), "</bdi></dd>\n");
    }
  }
  return absl::StrCat(html, "</dl>\n");
}

std::string SectionHtml(const NamedReport& run, bool is_named) {
  const bool succeeded = Succeeded(run.report);
  return absl::StrCat("<section class=\"card verdict\"><h2>", is_named ? "<bdi>" : "",
                      is_named ? absl::StrCat(EscapeHtml(run.name), "</bdi>: ") : "",
                      "<span class=\"", succeeded ? "passed\">Passed" : "failed\">Failed",
                      "</span></h2>\n<pre class=\"scroll\">", EscapeHtml(ToText(run.report)),
                      "</pre>\n", FactsHtml(run.report), "</section>\n");
}

/// `json` with texts, keys included, that cannot reorder what is around them.
nlohmann::json PrintableJson(const nlohmann::json& json) {
  if (json.is_string()) {
    return Printable(json.get<std::string>());
  }
  nlohmann::json printable = json;
  if (json.is_object()) {
    printable = nlohmann::json::object();
    for (const auto& [key, value] : json.items()) {
      printable[Printable(key)] = PrintableJson(value);
    }
  } else if (json.is_array()) {
    for (nlohmann::json& value : printable) {
      value = PrintableJson(value);
    }
  }
  return printable;
}

nlohmann::json DataOf(const NamedReport& run, bool is_named) {
  nlohmann::json limits = nlohmann::json::array();
  for (const SloTarget& target : run.report.slo) {
    if (target.of != SloTarget::Of::kErrors) {
      limits.push_back({{"name", target.text}, {"y", target.limit}});
    }
  }
  return PrintableJson(
      {{"name", is_named ? run.name : ""}, {"limits", limits}, {"result", ToJson(run.report)}});
}

}  // namespace

std::string ReportPage(const std::vector<NamedReport>& reports) {
  const std::string title = Title(reports);
  std::string body = absl::StrCat("<h1><bdi>", EscapeHtml(title), "</bdi></h1>\n");
  nlohmann::json data = nlohmann::json::array();
  for (const NamedReport& run : reports) {
    body += SectionHtml(run, reports.size() > 1);
    data.push_back(DataOf(run, reports.size() > 1));
  }
  body +=
      "<noscript><p class=\"card\">Charts need scripts; the numbers above do not.</p></noscript>\n"
      "<div id=\"charts\"></div>\n";
  return PageHtml({.title = title,
                   .body = body,
                   .styles = {&kReportStyle},
                   .scripts = {&kReportResultsScript, &kReportScript},
                   .data = std::move(data)});
}

}  // namespace attention
