#include "client/report/report_page.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/page/asset.h"
#include "client/page/escape.h"
#include "client/page/page.h"

namespace attention {

extern const Asset kReportStyle;
extern const Asset kReportResultsScript;
extern const Asset kReportScript;

namespace {

using Json = nlohmann::json;

std::string Title(const std::vector<NamedReport>& reports) {
  if (reports.size() > 1) {
    return absl::StrCat("attend bench: ", reports.size(), " runs compared");
  }
  const Json& options = reports.front().result.at("options");
  const std::string model = options.at("model");
  return absl::StrCat("attend bench: ",
                      model.empty() ? options.at("request").get<std::string>() : model);
}

/// A text or a list of texts without JSON's quotes: "avx2 fma".
std::string ValueText(const Json& value) {
  if (value.is_array()) {
    return absl::StrJoin(value, " ", [](std::string* out, const Json& one) {
      absl::StrAppend(out, ValueText(one));
    });
  }
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', true);
}

/// The members of `pairs`: "cpu Xeon; cpus 2; isa avx2 fma".
std::string PairsText(const Json& pairs, const char* separator) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : pairs.items()) {
    parts.push_back(absl::StrCat(key, separator, ValueText(value)));
  }
  return absl::StrJoin(parts, "; ");
}

/// The facts that the text of a report leaves out.
std::string FactsHtml(const Json& result) {
  const Json& options = result.at("options");
  const std::pair<const char*, std::string> facts[] = {
      {"Measured", absl::StrCat("after ", options.at("warmup_s").get<double>(),
                                " s of warm-up, timeout ", options.at("timeout_s").get<double>(),
                                " s, seed ", options.at("seed").get<uint64_t>())},
      {"Started", result.at("started")},
      {"Tags", PairsText(result.at("tags"), "=")},
      {"Client", PairsText(result.at("machine"), " ")},
      {"Command", result.at("command")}};
  std::string html = "<dl>\n";
  for (const auto& [name, text] : facts) {
    if (!text.empty()) {
      absl::StrAppend(&html, "<dt>", name, "</dt><dd><bdi>", EscapeHtml(text), "</bdi></dd>\n");
    }
  }
  return absl::StrCat(html, "</dl>\n");
}

std::string SectionHtml(const NamedReport& run, bool is_named) {
  const bool succeeded = run.result.at("succeeded");
  const std::string text = run.result.at("text");
  return absl::StrCat("<section class=\"card verdict\"><h2>", is_named ? "<bdi>" : "",
                      is_named ? absl::StrCat(EscapeHtml(run.name), "</bdi>: ") : "",
                      "<span class=\"", succeeded ? "passed\">Passed" : "failed\">Failed",
                      "</span></h2>\n<pre class=\"scroll\">", EscapeHtml(text), "</pre>\n",
                      FactsHtml(run.result), "</section>\n");
}

/// Whether the result has one level, whose options are those of the run.
bool HasOneLevel(const Json& result) {
  const Json& options = result.at("options");
  return options.contains("rate_per_s") || options.contains("concurrency");
}

/// What must be equal of two runs for their numbers to be comparable: the load, the request, and
/// the machines that sent it and answered it. Rates are conditions where each run has one level.
std::vector<std::pair<std::string, std::string>> Conditions(const Json& result,
                                                            bool have_one_level) {
  const Json& options = result.at("options");
  const Json& level = HasOneLevel(result) ? options : result.at("levels").at(0).at("options");
  std::vector<std::pair<std::string, std::string>> conditions = {
      {"load", level.contains("rate_per_s") ? "open loop, latency from when a request was due"
               : options.contains("decode") ? "sessions"
                                            : "closed loop, latency from when a request was sent"}};
  const auto add = [&](const char* key, const Json& value) {
    conditions.emplace_back(key, value.is_null() ? "-" : ValueText(value));
  };
  for (const char* const key : {"rate_per_s", "concurrency"}) {
    add(key, have_one_level ? options.value(key, Json()) : Json());
  }
  for (const char* const key : {"arrivals", "ramp_to_per_s", "schedule"}) {
    add(key, level.value(key, Json()));
  }
  for (const char* const key :
       {"warmup_s", "model", "request", "lengths", "causal", "stream", "protocol", "decode",
        "connections", "retries", "timeout_s", "server"}) {
    add(key, options.value(key, Json()));
  }
  conditions.emplace_back("machine", PairsText(result.at("machine"), " "));
  return conditions;
}

/// Says in what the conditions of the runs differ; empty if in nothing.
std::string DifferencesHtml(const std::vector<NamedReport>& reports) {
  std::vector<std::vector<std::pair<std::string, std::string>>> all;
  const bool have_one_level =
      std::ranges::all_of(reports, [](const NamedReport& run) { return HasOneLevel(run.result); });
  for (const NamedReport& run : reports) {
    all.push_back(Conditions(run.result, have_one_level));
  }
  std::string html;
  for (size_t i = 0; i < all.front().size(); ++i) {
    const auto is_like_first = [&](const auto& of_run) { return of_run[i] == all.front()[i]; };
    if (std::all_of(all.begin(), all.end(), is_like_first)) {
      continue;
    }
    absl::StrAppend(&html, "<dt>", all.front()[i].first, "</dt><dd>");
    for (size_t run = 0; run < all.size(); ++run) {
      absl::StrAppend(&html, run == 0 ? "" : "<br>", "<bdi>", EscapeHtml(reports[run].name),
                      "</bdi>: <bdi>", EscapeHtml(all[run][i].second), "</bdi>");
    }
    html += "</dd>\n";
  }
  return html.empty() ? ""
                      : absl::StrCat(
                            "<section class=\"card\"><h2>The runs differ in more than their "
                            "numbers</h2>\n<dl>\n",
                            html, "</dl>\n</section>\n");
}

/// Returns `json` with all texts, keys included, made Printable.
Json PrintableJson(const Json& json) {
  if (json.is_string()) {
    return Printable(json.get<std::string>());
  }
  Json printable = json;
  if (json.is_object()) {
    printable = Json::object();
    for (const auto& [key, value] : json.items()) {
      printable[Printable(key)] = PrintableJson(value);
    }
  } else if (json.is_array()) {
    for (Json& value : printable) {
      value = PrintableJson(value);
    }
  }
  return printable;
}

}  // namespace

absl::StatusOr<std::string> ReportPage(const std::vector<NamedReport>& reports) {
  std::string title, body;
  Json data = Json::array();
  const bool are_named = reports.size() > 1;
  for (const NamedReport& run : reports) {
    try {  // json throws if a member is missing or has another type, also of what is compared
      title = Title(reports);
      body += SectionHtml(run, are_named);
      Conditions(run.result, HasOneLevel(run.result));
    } catch (const Json::exception& error) {
      return absl::InvalidArgumentError(
          absl::StrCat(run.name, ": not a result of attend bench: ", error.what()));
    }
    data.push_back(PrintableJson({{"name", are_named ? run.name : ""}, {"result", run.result}}));
  }
  body += are_named ? DifferencesHtml(reports) : "";
  return PageHtml(
      {.title = title,
       .body = absl::StrCat("<h1><bdi>", EscapeHtml(title), "</bdi></h1>\n", body,
                            "<noscript><p class=\"card\">Charts need scripts; the numbers above do "
                            "not.</p></noscript>\n<div id=\"charts\"></div>\n"),
       .styles = {&kReportStyle},
       .scripts = {&kReportResultsScript, &kReportScript},
       .data = std::move(data)});
}

}  // namespace attention
