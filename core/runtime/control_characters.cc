#include "core/runtime/control_characters.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/runtime/utf8.h"

namespace attention {
namespace {

bool IsControl(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C || code == 0x200E ||
         code == 0x200F || (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

std::string ReplaceControls(absl::string_view text,
                            absl::FunctionRef<std::string(uint32_t code)> replacement) {
  std::string result;
  while (!text.empty()) {
    const std::optional<Character> first = FirstCharacter(text);
    const size_t num_bytes = first.has_value() ? first->num_bytes : 1;
    if (first.has_value() && IsControl(first->code)) {
      result += replacement(first->code);
    } else {
      absl::StrAppend(&result, text.substr(0, num_bytes));
    }
    text.remove_prefix(num_bytes);
  }
  return result;
}

std::string JsonEscape(uint32_t code) {
  const uint32_t beyond = code - 0x10000;
  return code < 0x10000 ? absl::StrFormat("\\u%04x", code)
                        : absl::StrFormat("\\u%04x\\u%04x", 0xD800 + (beyond >> 10),
                                          0xDC00 + (beyond & 0x3FF));
}

}  // namespace attention
