#include "server/observability/log.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace attention {
namespace {

const char* NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kWarning:
      return "WARNING";
    case LogLevel::kError:
      return "ERROR";
    default:
      return "INFO";
  }
}

}  // namespace

void Log(LogLevel level, std::string_view text) {
  const std::string line =
      absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()), " ",
                   NameOf(level), " ", std::string(text), "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace attention
