// The server's log: one line of text per event, on standard error.
#pragma once

#include <string_view>

namespace attention {

enum class LogLevel { kInfo, kWarning, kError };

/// Writes `2026-01-31T12:00:00.000Z LEVEL text`, in one piece. Thread-safe.
void Log(LogLevel level, std::string_view text);

}  // namespace attention
