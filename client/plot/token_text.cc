#include "client/plot/token_text.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/page/escape.h"

namespace attention {
namespace {

struct Range {
  uint32_t first = 0;
  uint32_t last = 0;
};

// Formatting characters (general category Cf and the line separators) that a token may hold.
constexpr Range kInvisible[] = {{0x00AD, 0x00AD}, {0x061C, 0x061C}, {0x180E, 0x180E},
                                {0x200B, 0x200F}, {0x2028, 0x202E}, {0x2060, 0x206F},
                                {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};

// East_Asian_Width W and F, in whole blocks.
constexpr Range kWide[] = {{0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},
                           {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xA960, 0xA97F},
                           {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
                           {0xFF01, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F},
                           {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};

// Marks that stand on the character before them.
constexpr Range kCombining[] = {
    {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x0610, 0x061A}, {0x064B, 0x065F},
    {0x0E31, 0x0E31}, {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},
    {0x20D0, 0x20FF}, {0x302A, 0x302D}, {0x3099, 0x309A}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}};

template <size_t N>
bool IsIn(const Range (&ranges)[N], uint32_t value) {
  return std::any_of(ranges, ranges + N, [value](const Range& range) {
    return value >= range.first && value <= range.last;
  });
}

std::string ShownControl(uint32_t value) {
  switch (value) {
    case '\n':
      return "↵";
    case '\t':
      return "⇥";
    case 0x7F:
      return "␡";
    default:
      break;
  }
  // U+2400 + value, whose last byte in UTF-8 is 0x80 + value.
  return absl::StrCat("\xE2\x90", std::string(1, static_cast<char>(0x80 + value)));
}

std::string ShownCharacter(absl::string_view bytes, uint32_t value) {
  if (value == ' ' || value == 0xA0) {
    return "␣";
  }
  if (value < 0x20 || value == 0x7F) {
    return ShownControl(value);
  }
  if ((value >= 0x80 && value < 0xA0) || IsIn(kInvisible, value)) {
    return absl::StrFormat("<U+%04X>", value);
  }
  return std::string(bytes);
}

int64_t ColumnsOf(uint32_t value) { return IsIn(kCombining, value) ? 0 : IsIn(kWide, value) + 1; }

}  // namespace

std::string ShownToken(absl::string_view token) {
  if (token.empty()) {
    return "∅";
  }
  std::string shown;
  while (!token.empty()) {
    const std::optional<Character> first = FirstCharacter(token);
    const size_t bytes = first.has_value() ? first->num_bytes : 1;
    absl::StrAppend(&shown, first.has_value()
                                ? ShownCharacter(token.substr(0, bytes), first->code)
                                : absl::StrFormat("\\x%02X", static_cast<uint8_t>(token[0])));
    token.remove_prefix(bytes);
  }
  return shown;
}

int64_t ColumnsOf(absl::string_view text) {
  int64_t columns = 0;
  while (!text.empty()) {
    const Character first = FirstCharacter(text).value_or(Character{'?', 1});
    columns += ColumnsOf(first.code);
    text.remove_prefix(first.num_bytes);
  }
  return columns;
}

std::string CutTo(absl::string_view text, int64_t columns) {
  if (ColumnsOf(text) <= columns) {
    return std::string(text);
  }
  std::string cut;
  int64_t taken = 0;
  while (!text.empty()) {
    const Character first = FirstCharacter(text).value_or(Character{'?', 1});
    taken += ColumnsOf(first.code);
    if (taken > columns - 1) {
      break;
    }
    absl::StrAppend(&cut, text.substr(0, first.num_bytes));
    text.remove_prefix(first.num_bytes);
  }
  return columns > 0 ? cut + "…" : "";
}

std::string Spaces(int64_t count) {
  return std::string(static_cast<size_t>(std::max<int64_t>(0, count)), ' ');
}

std::string PadLeft(absl::string_view text, int64_t columns) {
  return absl::StrCat(Spaces(columns - ColumnsOf(text)), text);
}

std::vector<std::string> NumberedTokens(int64_t count, absl::string_view prefix) {
  std::vector<std::string> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(absl::StrCat(prefix, i));
  }
  return tokens;
}

}  // namespace attention
