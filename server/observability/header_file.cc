#include "server/observability/header_file.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/text_file.h"

namespace attention {
namespace {

constexpr size_t kMaxHeaderFileBytes = size_t{64} << 10;

// Returns whether the line is a header by RFC 9110, 5.1 and 5.5.
bool IsHeader(absl::string_view line) {
  const size_t colon = line.find(':');
  const absl::string_view name = line.substr(0, colon);
  return colon != absl::string_view::npos && !name.empty() &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) {
                       return absl::ascii_isalnum(c) || absl::StrContains("!#$%&'*+-.^_`|~", c);
                     }) &&
         std::none_of(line.begin(), line.end(),
                      [](unsigned char c) { return absl::ascii_iscntrl(c) && c != '\t'; });
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadHeaderFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxHeaderFileBytes));
  std::vector<std::string> headers;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') {
      continue;
    }
    if (!IsHeader(line)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": line ", number, ": expected NAME: VALUE"));
    }
    headers.emplace_back(line);
  }
  return headers;
}

}  // namespace attention
