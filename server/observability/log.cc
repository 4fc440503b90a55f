#include "server/observability/log.h"

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

// Standard error is the process's, and so is how it is written to.
std::atomic<LogLevel> current_level = LogLevel::kInfo;
std::atomic<LogFormat> current_format = LogFormat::kText;

std::string Quoted(const std::string& value) {
  std::string quoted = "\"";
  for (const char c : value) {
    quoted += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  }
  return quoted + "\"";
}

std::string TextOf(const std::string& value) {
  const bool is_word = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return c > ' ' && c != '"' && c != '=' && c != '\\';
  });
  return is_word ? value : Quoted(value);
}
std::string TextOf(int64_t value) { return absl::StrCat(value); }
std::string TextOf(double value) { return absl::StrFormat("%.3f", value); }

std::string TextLine(const std::string& time, const LogEvent& event) {
  std::string line = absl::StrCat(time, " ", absl::AsciiStrToUpper(std::string(Name(event.level))),
                                  " ", event.text);
  for (const LogField& field : event.fields) {
    absl::StrAppend(&line, " ", field.key, "=",
                    std::visit([](const auto& value) { return TextOf(value); }, field.value));
  }
  std::replace_if(line.begin(), line.end(), absl::ascii_iscntrl, ' ');
  return line;
}

std::string JsonLine(const std::string& time, const LogEvent& event) {
  nlohmann::ordered_json json = {
      {"time", time}, {"level", std::string(Name(event.level))}, {"message", event.text}};
  for (const LogField& field : event.fields) {
    std::visit([&](const auto& value) { json[field.key] = value; }, field.value);
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
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
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void Log(LogLevel level, std::string_view text) {
  Log({.level = level, .text = std::string(text)});
}

void SetLogLevel(LogLevel level) { current_level = level; }
LogLevel CurrentLogLevel() { return current_level; }
void SetLogFormat(LogFormat format) { current_format = format; }

}  // namespace attention
