#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/files/output_file.h"
#include "client/cli/flags/help_group.h"
#include "client/cli/flags/server_flags.h"
#include "client/cli/show/bench_output.h"
#include "client/report/report_page.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kReportExamples[] =
    R"(A page has the text and the charts of each result, and needs no network. Of several results it
charts one level each: the highest that met its targets.

Examples:
  attend bench -c 8 --json before.json
  attend report before.json                             # the same text again
  attend report before.json after.json --html cmp.html  # both

Exit codes: 0 done, 1 failed, 2 wrong usage.)";

struct ReportFlags {
  std::vector<std::string> files;
  std::string html;
};

/// The name of the file without folder and extension, or its path if several files have that name.
std::string NameOf(const std::string& path, const std::vector<std::string>& all) {
  const auto stem = [](const std::string& file) {
    return std::filesystem::path(file).stem().string();
  };
  const auto alike = std::count_if(
      all.begin(), all.end(), [&](const std::string& other) { return stem(other) == stem(path); });
  return alike == 1 ? stem(path) : path;
}

absl::Status Report(const ReportFlags& flags) {
  if (!flags.html.empty() && flags.html != "-") {
    RETURN_IF_ERROR(CheckOtherFile(flags.html, flags.files));
  }
  std::vector<NamedReport> reports;
  for (const std::string& path : flags.files) {
    ASSIGN_OR_RETURN(nlohmann::json result, ReadReportFile(path));
    reports.push_back({.name = NameOf(path, flags.files), .result = std::move(result)});
  }
  if (!flags.html.empty()) {
    ASSIGN_OR_RETURN(const std::string page, ReportPage(reports));
    return WriteOutput(flags.html, page);
  }
  for (const NamedReport& run : reports) {
    if (reports.size() > 1) {
      PrintText(absl::StrCat(run.name, "\n"));
    }
    PrintText(run.result["text"].get<std::string>());
  }
  return absl::OkStatus();
}

}  // namespace

void AddReportCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<ReportFlags>();
  CLI::App* const command = app.add_subcommand("report", "Show results of `bench`, one or several");
  HelpGroup group(*command);
  group.Value("RESULT", flags->files, "FILE", "A result of bench --json")->required();
  group.Value("--html", flags->html, "FILE", "Write a page of charts; - is standard output")
      ->check(FileName());
  command->footer(kReportExamples);
  command->callback([flags, &exit_code] { exit_code = ExitCodeOf(Report(*flags)); });
}

}  // namespace attention
