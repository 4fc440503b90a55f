#include "client/cli/show/bench_output.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/files/output_file.h"
#include "client/load/report.h"
#include "client/plot/token_text.h"
#include "client/report/report_page.h"
#include "core/runtime/json_text.h"
#include "core/runtime/output_file.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/text_file.h"

namespace attention {
namespace {

/// The maximum size of a report. A level takes some 80 KB, and 1,000 levels are allowed.
constexpr size_t kMaxReportBytes = size_t{256} << 20;

}  // namespace

absl::Status CheckOutputs(const BenchOutputs& outputs) {
  std::vector<std::string> used;
  for (const std::string& path : {outputs.json, outputs.csv, outputs.html, outputs.records}) {
    if (path.empty() || path == "-") {
      continue;
    }
    RETURN_IF_ERROR(CheckWritable(path));
    RETURN_IF_ERROR(CheckOtherFile(path, used));
    used.push_back(path);
  }
  return absl::OkStatus();
}

absl::Status WriteReport(const BenchReport& report, const BenchOutputs& outputs) {
  const nlohmann::json json = ToJson(report);
  const std::string json_text = JsonText(json, 1);
  const absl::StatusOr<std::string> page = outputs.html.empty()
                                               ? absl::StatusOr<std::string>("")
                                               : ReportPage({{.name = "result", .result = json}});
  absl::Status status = page.status();
  const std::pair<const std::string&, std::string> texts[] = {
      {outputs.json, json_text},
      {outputs.csv, ToCsv(report)},
      {outputs.html, page.value_or("")},
      {outputs.records, outputs.records.empty() ? "" : RecordsCsv(report)}};
  // Files come first: writing to a closed pipe ends the program.
  for (const bool is_stdout : {false, true}) {
    for (const auto& [path, text] : texts) {
      if (!path.empty() && !text.empty() && (path == "-") == is_stdout) {
        status.Update(WriteOutput(path, text));
      }
    }
  }
  const bool is_stdout_taken =
      std::ranges::any_of(texts, [](const auto& text) { return text.first == "-"; });
  const std::string text = ShownText(ToText(report));
  const absl::Status shown = is_stdout_taken ? status : WriteOutput("-", text);
  if (!shown.ok()) {
    std::cerr << text;
  }
  status.Update(shown);
  return status;
}

absl::StatusOr<nlohmann::json> ReadReportFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxReportBytes));
  ASSIGN_OR_RETURN(nlohmann::json json, ParseJsonObject(text, path));
  const auto format = json.find("format");
  const auto shown = json.find("text");
  if (format == json.end() || *format != kReportFormat || shown == json.end() ||
      !shown->is_string()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": not a result of attend bench: expected a \"text\", and the \"format\" ",
        kReportFormat));
  }
  return json;
}

}  // namespace attention
