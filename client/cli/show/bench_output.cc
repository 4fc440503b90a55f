#include "client/cli/show/bench_output.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
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

/// The maximum size of a report; histograms make it some ten thousand lines at most.
constexpr size_t kMaxReportBytes = size_t{64} << 20;

constexpr char kMetadata[] = "--metadata=";

/// Replaces the value of KEY=VALUE by "...".
std::string WithoutValue(const std::string& pair) {
  return absl::StrCat(pair.substr(0, pair.find('=')), "=...");
}

/// Whether the parser takes `word` as a flag, and not as one more value of the flag before.
bool IsFlag(const std::string& word) {
  return absl::StartsWith(word, "--") ||
         (word.size() > 1 && word[0] == '-' && absl::ascii_isalpha(word[1]));
}

}  // namespace

std::string ShellQuoted(const std::string& word) {
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("_-./:=,@%+", c);
  });
  return is_plain ? word : absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

absl::Status CheckOutputs(const BenchOutputs& outputs) {
  for (const std::string& path : {outputs.json, outputs.csv, outputs.html, outputs.records}) {
    if (!path.empty() && path != "-") {
      RETURN_IF_ERROR(CheckWritable(path));
    }
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

std::string WithoutSecrets(const std::vector<std::string>& words) {
  std::vector<std::string> shown;
  bool is_value = false;         // whatever the word looks like
  bool is_after_values = false;  // the parser takes further words as values, up to the next flag
  for (const std::string& word : words) {
    const bool is_bare = word == "--metadata" || word == "-m";
    const absl::string_view prefix = absl::StartsWith(word, kMetadata) ? kMetadata
                                     : absl::StartsWith(word, "-m")    ? "-m"
                                                                       : "";
    if (is_value || (is_after_values && !IsFlag(word))) {
      shown.push_back(WithoutValue(word));
      is_value = false;
      continue;
    }
    is_value = is_bare || word == kMetadata;
    is_after_values = is_bare || !prefix.empty();
    shown.push_back(is_value || prefix.empty()
                        ? word
                        : absl::StrCat(prefix, WithoutValue(word.substr(prefix.size()))));
  }
  return absl::StrJoin(shown, " ", [](std::string* line, const std::string& word) {
    absl::StrAppend(line, ShellQuoted(word));
  });
}

std::string CommandLine() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) {
    words.push_back(word);
  }
  return WithoutSecrets(words);
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
  const std::string length =
      options.duration == absl::InfiniteDuration() && options.requests > 0
          ? absl::StrFormat("%d request%s", options.requests, options.requests == 1 ? "" : "s")
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
