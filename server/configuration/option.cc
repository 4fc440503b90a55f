#include "server/configuration/option.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "core/runtime/flag_text.h"

namespace attention {

Option& Option::WithDefault(const std::string& value) {
  default_values = {value};
  return *this;
}

Option& Option::Needs(const std::string& other) {
  needs = other;
  return *this;
}

std::string VariableOf(const std::string& option) {
  return absl::StrCat(kVariablePrefix, absl::AsciiStrToUpper(KeyOf(option)));
}

std::string KeyOf(const std::string& option) { return absl::StrReplaceAll(option, {{"-", "_"}}); }

std::string Shown(const std::string& text) { return text.empty() ? "an empty text" : text; }

absl::StatusOr<int64_t> ParseInteger(const std::string& text, int64_t min, int64_t max) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < min || value > max) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a whole number of ", min, " to ", max, ", found ", Shown(text)));
  }
  return value;
}

absl::StatusOr<bool> ParseSwitch(const std::string& text) {
  bool value = false;
  if (!absl::SimpleAtob(text, &value)) {
    return absl::InvalidArgumentError(absl::StrCat("expected true or false, found ", Shown(text)));
  }
  return value;
}

absl::StatusOr<absl::Duration> ParseDuration(const std::string& text) {
  const std::optional<absl::Duration> duration = ReadDuration(text);
  if (!duration.has_value() ||
      (*duration != absl::ZeroDuration() && *duration < absl::Milliseconds(1)) ||
      *duration > absl::Seconds(kMaxDurationSeconds)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected 0, or 1 ms to 24 hours, as 30 (seconds), 30s or 1m30s, found ", Shown(text)));
  }
  return *duration;
}

}  // namespace attention
