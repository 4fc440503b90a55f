// The server's log: one line per event, on standard error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/runtime/contain.h"

namespace attention {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

/// A named value of a log line, besides its text.
struct LogField {
  std::string key;
  std::variant<std::string, int64_t, double> value;
};
using LogFields = std::vector<LogField>;

struct LogEvent {
  LogLevel level = LogLevel::kInfo;
  std::string text;
  LogFields fields = {};
};

/// Returns "debug", "info", "warning" or "error".
std::string_view Name(LogLevel level);

/// Writes the event as one line, unless its level is below the current one. Thread-safe.
void Log(const LogEvent& event);
void Log(LogLevel level, std::string_view text);

/// Logs an error that belongs to no request, on a thread that continues. Does not throw.
void LogFailure(const absl::Status& status) noexcept;
/// Calls `function`, and logs what it throws, as Contain names it by `work`. Returns whether it
/// threw nothing.
template <typename Function>
bool RunLogged(std::string_view work, Function&& function) {
  const absl::Status status = ContainVoid(work, std::forward<Function>(function));
  if (!status.ok()) {
    LogFailure(status);
  }
  return status.ok();
}

/// Moves the writing of lines to a thread (LogSink), so that no other thread waits for the reader
/// of the log. A process that ends by abort() waits 50 ms for the lines. Called once.
void StartAsyncLog();
/// Waits until the lines are written, for at most half a second.
void FlushLog();
/// Returns the number of lines that were left out because standard error was not read in time, or
/// could not be written.
int64_t LogLinesLeftOut();

/// Set level and format for the process, whose standard error is the log: at first info and text.
/// Thread-safe.
void SetLogLevel(LogLevel level);
LogLevel CurrentLogLevel();
void SetLogFormat(LogFormat format);

/// Returns the line with its line break. Text: `2026-01-31T12:00:00.000Z INFO text key=value`;
/// JSON: one object with `time`, `level`, `message` and the fields. A text from a client cannot end
/// the line: control characters become blanks in text, and are escaped in JSON, where invalid UTF-8
/// is replaced.
std::string FormatLogLine(LogFormat format, absl::Time time, const LogEvent& event);

}  // namespace attention
