#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/bench_output.h"
#include "client/cli/commands.h"
#include "client/cli/server_flags.h"
#include "client/load/report.h"
#include "client/report/report_page.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kReportExamples[] =
    "A page shows charts and the same numbers as tables, needs no network, and can be read without "
    "scripts.\n"
    "Of several results it shows the level that says most of each: the highest that met its "
    "targets.\n"
    "\n"
    "Examples:\n"
    "  attend bench -c 8 --json before.json\n"
    "  attend report before.json                               the same text again\n"
    "  attend report before.json after.json --html cmp.html    side by side";

struct ReportFlags {
  std::vector<std::string> files;
  std::string html;
};

/// The file's name without its folder and ending, or its path where that does not tell it from the
/// others.
std::string NameOf(const std::string& path, const std::vector<std::string>& all) {
  const auto stem = [](const std::string& file) {
    return std::filesystem::path(file).stem().string();
  };
  const auto alike = std::count_if(
      all.begin(), all.end(), [&](const std::string& other) { return stem(other) == stem(path); });
  return alike == 1 ? stem(path) : path;
}

absl::Status Report(const ReportFlags& flags) {
  std::vector<NamedReport> reports;
  for (const std::string& path : flags.files) {
    ASSIGN_OR_RETURN(BenchReport report, ReadReportFile(path));
    reports.push_back({.name = NameOf(path, flags.files), .report = std::move(report)});
  }
  if (!flags.html.empty()) {
    return WriteOutput(flags.html, ReportPage(reports));
  }
  for (const NamedReport& run : reports) {
    if (reports.size() > 1) {
      std::cout << run.name << "\n";
    }
    std::cout << ToText(run.report);
  }
  return absl::OkStatus();
}

}  // namespace

void AddReportCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<ReportFlags>();
  CLI::App* const command =
      app.add_subcommand("report", "Show results of `bench`, one or several side by side");
  command->add_option("RESULT", flags->files, "What bench --json wrote")->required();
  command->add_option("--html", flags->html, "Write a page of charts; - is stdout")
      ->type_name("FILE");
  command->footer(kReportExamples);
  command->callback([flags, &exit_code] {
    const absl::Status status = Report(*flags);
    exit_code = status.ok() ? 0 : Fail(status);
  });
}

}  // namespace attention
