#include "client/cli/show/bench_output.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/cli/files/output_file.h"
#include "client/load/report.h"
#include "client/report/report_page.h"
#include "core/runtime/json_text.h"
#include "core/runtime/output_file.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/text_file.h"

namespace attention {

namespace {

/// The maximum size of a report; histograms make it some ten thousand lines at most.
constexpr size_t kMaxReportBytes = size_t{64} << 20;

/// Replaces the value of KEY=VALUE by "...".
std::string WithoutValue(const std::string& pair) {
  return absl::StrCat(pair.substr(0, pair.find('=')), "=...");
}

}  // namespace

std::string ShellQuoted(const std::string& word) {
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("_-./:=,@%+", c);
  });
  return is_plain ? word : absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

absl::Status CheckOutputs(const BenchOutputs& outputs) {
  for (const std::string& path : {outputs.json, outputs.csv, outputs.html}) {
    if (!path.empty() && path != "-") {
      RETURN_IF_ERROR(CheckWritable(path));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteReport(const BenchReport& report, const BenchOutputs& outputs) {
  const nlohmann::json json = ToJson(report);
  // The command line and the errors of servers may hold bytes that are not UTF-8.
  const std::string json_text = json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
  const absl::StatusOr<std::string> page = outputs.html.empty()
                                               ? absl::StatusOr<std::string>("")
                                               : ReportPage({{.name = "result", .result = json}});
  absl::Status status = page.status();
  const std::pair<const std::string&, std::string> texts[] = {{outputs.json, json_text + "\n"},
                                                              {outputs.csv, ToCsv(report)},
                                                              {outputs.html, page.value_or("")}};
  // Files come first: writing to a closed pipe ends the program.
  for (const bool is_stdout : {false, true}) {
    for (const auto& [path, text] : texts) {
      if (!path.empty() && !text.empty() && (path == "-") == is_stdout) {
        status.Update(WriteOutput(path, text));
      }
    }
  }
  const bool is_stdout_taken = outputs.json == "-" || outputs.csv == "-" || outputs.html == "-";
  const absl::Status shown = is_stdout_taken ? status : WriteOutput("-", ToText(report));
  if (!shown.ok()) {
    std::cerr << ToText(report);
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

std::string CommandLine() {
  std::ifstream file("/proc/self/cmdline");
  std::string line;
  bool is_metadata = false;
  for (std::string word; std::getline(file, word, '\0');) {
    const bool is_joined = absl::StartsWith(word, "--metadata=");
    const std::string shown = is_metadata ? WithoutValue(word)
                              : is_joined
                                  ? absl::StrCat("--metadata=", WithoutValue(word.substr(11)))
                                  : word;
    is_metadata = word == "--metadata" || word == "-m";
    absl::StrAppend(&line, line.empty() ? "" : " ", ShellQuoted(shown));
  }
  return line;
}

namespace {

/// Clears the current line of a terminal.
constexpr char kClearLine[] = "\r\x1b[K";

std::atomic<bool>& IsInterrupted() {
  static std::atomic<bool> is_interrupted = false;
  return is_interrupted;
}

void Interrupt(int) {
  IsInterrupted().store(true);
  static constexpr char kMessage[] =
      "\nattend: stopping; waiting for requests in flight (Ctrl-C again to stop now)\n";
  // A failure cannot be handled here.
  (void)!write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
}

/// SIGTERM is what `timeout`, containers and CI send.
void CatchFirstInterrupt() {
  struct sigaction action{};
  action.sa_handler = Interrupt;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

std::string LevelText(const LoadOptions& options) {
  return options.open_loop.has_value() ? absl::StrFormat("%.6g requests/s", LevelValue(options))
                                       : absl::StrFormat("%d in flight", options.concurrency);
}

void PrintLevel(const LoadOptions& options) {
  const std::string length = options.duration == absl::InfiniteDuration() && options.requests > 0
                                 ? absl::StrFormat("%d requests", options.requests)
                             : options.duration == absl::InfiniteDuration() ? "the schedule"
                             : options.stability.has_value()
                                 ? absl::StrFormat("up to %d x %s", options.stability->max_trials,
                                                   absl::FormatDuration(options.duration))
                                 : absl::FormatDuration(options.duration);
  std::cerr << "attend: " << LevelText(options) << ": measuring for " << length << " after "
            << absl::FormatDuration(options.warmup) << " of warm-up\n";
}

void PrintProgress(const LoadProgress& progress) {
  const bool is_warming_up = progress.elapsed < absl::ZeroDuration();
  std::cerr << kClearLine
            << absl::StrFormat(
                   "%s  %.1f answers/s  p99 %.3f ms  %d failed  %d in flight",
                   is_warming_up
                       ? "warm-up"
                       : absl::StrFormat("%.1f s", absl::ToDoubleSeconds(progress.elapsed)),
                   progress.answers_per_s, progress.p99_ms, progress.errors, progress.in_flight)
            << std::flush;
}

}  // namespace

BenchWatch WatchFromTerminal() {
  CatchFirstInterrupt();
  BenchWatch watch;
  watch.control.stop = &IsInterrupted();
  watch.on_level = PrintLevel;
  if (isatty(STDERR_FILENO) == 1) {
    watch.control.on_progress = PrintProgress;
    watch.on_result = [](const BenchLevel&) { std::cerr << kClearLine << std::flush; };
  }
  return watch;
}

}  // namespace attention
