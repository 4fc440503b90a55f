// The server's log: one line per event, on standard error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace attention {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

/// What a line says beside its text, under a name of its own.
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

/// "debug", "info", "warning", "error".
std::string_view Name(LogLevel level);

/// Writes the event in one piece, unless its level is below the current one. Thread-safe.
void Log(const LogEvent& event);
void Log(LogLevel level, std::string_view text);

/// Logs an error that belongs to no request, in a thread that goes on. Does not throw.
void LogFailure(const absl::Status& status) noexcept;

/// From now on lines are written by a thread of its own (LogSink): nobody waits for who reads them.
/// A process that ends by abort waits a moment for them. Once.
void StartAsyncLog();
/// Waits a moment until they are written.
void FlushLog();
/// Those that nobody read in time.
int64_t LogLinesLeftOut();

/// Of this process, as standard error is: info and text until set. Thread-safe.
void SetLogLevel(LogLevel level);
LogLevel CurrentLogLevel();
void SetLogFormat(LogFormat format);

/// The line, with its end. Text: `2026-01-31T12:00:00.000Z INFO text key=value`; JSON: one object
/// with `time`, `level`, `message` and the fields. What a client wrote cannot end the line: control
/// characters become blanks in text, and are escaped in JSON, where what is no UTF-8 is replaced.
std::string FormatLogLine(LogFormat format, absl::Time time, const LogEvent& event);

}  // namespace attention
