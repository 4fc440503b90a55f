#include "client/cli/named_version.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace attention {

absl::StatusOr<NamedVersion> ParseNamedVersion(const std::string& text) {
  const size_t colon = text.rfind(':');
  NamedVersion result = {.name = text.substr(0, colon)};
  int64_t version = 0;
  const bool has_version = colon != std::string::npos;
  if (result.name.empty() ||
      (has_version && (!absl::SimpleAtoi(text.substr(colon + 1), &version) || version < 1))) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": expected NAME or NAME:VERSION"));
  }
  if (has_version) {
    result.version = version;
  }
  return result;
}

}  // namespace attention
