#include "server/log/log.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/runtime/control_characters.h"
#include "core/runtime/fixed_text.h"
#include "nlohmann/json.hpp"
#include "server/log/log_sink.h"

namespace attention {
namespace {

// The settings of the log are global, as standard error is.
std::atomic<LogLevel> current_level = LogLevel::kInfo;
std::atomic<LogFormat> current_format = LogFormat::kText;
// Null: each thread writes its lines itself. Never destroyed, since threads log until the process
// ends.
std::atomic<LogSink*> sink = nullptr;

// The maximum size of waiting lines.
constexpr size_t kMaxWaitingBytes = size_t{1} << 20;
constexpr std::chrono::milliseconds kFlushTime{500};

std::string LeftOutLine(int64_t lines) {
  return FormatLogLine(current_format, absl::Now(),
                       {.level = LogLevel::kWarning,
                        .text = "log lines were left out: standard error was not read in time",
                        .fields = {{"lines_left_out", lines}}});
}

// Gives the writing thread time before abort() ends the process. Calls only functions that a signal
// handler may call.
void AwaitWriter(int) {
  constexpr timespec kWait = {.tv_sec = 0, .tv_nsec = 50'000'000};
  nanosleep(&kWait, nullptr);
}

std::string Quoted(const std::string& value) {
  std::string quoted = "\"";
  for (const char c : value) {
    quoted += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  }
  return quoted + "\"";
}

std::string TextOf(const std::string& value) {
  const bool is_word = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return absl::ascii_isgraph(c) && c != '"' && c != '=' && c != '\\';
  });
  return is_word ? value : Quoted(value);
}
std::string TextOf(int64_t value) { return absl::StrCat(value); }
std::string TextOf(double value) { return FixedText(value, 3); }

std::string TextLine(const std::string& time, const LogEvent& event) {
  std::string line = absl::StrCat(time, " ", absl::AsciiStrToUpper(std::string(Name(event.level))),
                                  " ", event.text);
  for (const LogField& field : event.fields) {
    absl::StrAppend(&line, " ", field.key, "=",
                    std::visit([](const auto& value) { return TextOf(value); }, field.value));
  }
  return ReplaceControls(line, [](uint32_t /*code*/) { return std::string(" "); });
}

std::string JsonLine(const std::string& time, const LogEvent& event) {
  nlohmann::ordered_json json = {
      {"time", time}, {"level", std::string(Name(event.level))}, {"message", event.text}};
  for (const LogField& field : event.fields) {
    std::visit([&](const auto& value) { json[field.key] = value; }, field.value);
  }
  return ReplaceControls(
      json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace), JsonEscape);
}

}  // namespace

std::string_view Name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
    default:
      return "info";
  }
}

std::string FormatLogLine(LogFormat format, absl::Time time, const LogEvent& event) {
  const std::string stamp = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
  return (format == LogFormat::kJson ? JsonLine(stamp, event) : TextLine(stamp, event)) + "\n";
}

void Log(const LogEvent& event) {
  if (event.level < CurrentLogLevel()) {
    return;
  }
  const std::string line = FormatLogLine(current_format, absl::Now(), event);
  if (LogSink* const async = sink) {
    async->Put(line);
  } else {
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
}

void Log(LogLevel level, std::string_view text) {
  Log({.level = level, .text = std::string(text)});
}

void LogFailure(const absl::Status& status) noexcept {
  try {
    Log(LogLevel::kError,
        status.message().empty() ? "out of memory" : std::string(status.message()));
  } catch (...) {  // there is no memory for the line either
  }
}

void StartAsyncLog() {
  sink = new LogSink(STDERR_FILENO, kMaxWaitingBytes, LeftOutLine);
  struct sigaction before = {};
  if (sigaction(SIGABRT, nullptr, &before) == 0 && before.sa_handler == SIG_DFL) {
    struct sigaction action = {};
    action.sa_handler = AwaitWriter;
    action.sa_flags = static_cast<int>(SA_RESETHAND);  // then abort() ends the process
    sigaction(SIGABRT, &action, nullptr);
  }
}

void FlushLog() {
  if (LogSink* const async = sink) {
    async->Flush(kFlushTime);
  }
}

int64_t LogLinesLeftOut() {
  const LogSink* const async = sink;
  return async == nullptr ? 0 : async->lines_left_out();
}

void SetLogLevel(LogLevel level) { current_level = level; }
LogLevel CurrentLogLevel() { return current_level; }
void SetLogFormat(LogFormat format) { current_format = format; }

}  // namespace attention
