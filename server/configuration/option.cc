#include "server/configuration/option.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/runtime/flag_text.h"

namespace attention {
namespace {

struct SizeUnit {
  absl::string_view name;
  int64_t bytes;
};
constexpr SizeUnit kSizeUnits[] = {{"", 1},
                                   {"k", 1'000},
                                   {"K", 1'000},
                                   {"M", 1'000'000},
                                   {"G", 1'000'000'000},
                                   {"T", 1'000'000'000'000},
                                   {"Ki", int64_t{1} << 10},
                                   {"Mi", int64_t{1} << 20},
                                   {"Gi", int64_t{1} << 30},
                                   {"Ti", int64_t{1} << 40}};

}  // namespace

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

absl::StatusOr<int64_t> ParseSize(const std::string& text, IntegerRange range) {
  const size_t num_digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const absl::string_view unit = absl::StripSuffix(absl::string_view(text).substr(num_digits), "B");
  int64_t value = 0;
  for (const SizeUnit& known : kSizeUnits) {
    if (unit == known.name && absl::SimpleAtoi(text.substr(0, num_digits), &value) &&
        value <= range.max / known.bytes && value * known.bytes >= range.min) {
      return value * known.bytes;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", range.min, " to ", range.max,
                   " bytes, as a whole number or one with a unit: K, M, G, T (powers of 1000) or "
                   "Ki, Mi, Gi, Ti (powers of 1024), found ",
                   Shown(text)));
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
