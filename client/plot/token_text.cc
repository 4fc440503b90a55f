#include "client/plot/token_text.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace attention {
namespace {

struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 0;
};

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

/// The first character; none where the bytes are no UTF-8 (RFC 3629). REQUIRES: `text` not empty.
std::optional<CodePoint> FirstOf(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) {
    return CodePoint{lead, 1};
  }
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) {
    return std::nullopt;
  }
  uint32_t value = lead & (0xFFU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return std::nullopt;
    }
    value = value << 6 | (byte(i) & 0x3FU);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kSmallest[bytes] || value > 0x10FFFF || is_surrogate) {
    return std::nullopt;
  }
  return CodePoint{value, bytes};
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
  // U+2400 + value, of which three bytes of UTF-8 end in those of value.
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
    const std::optional<CodePoint> point = FirstOf(token);
    const size_t bytes = point.has_value() ? point->bytes : 1;
    absl::StrAppend(&shown, point.has_value()
                                ? ShownCharacter(token.substr(0, bytes), point->value)
                                : absl::StrFormat("\\x%02X", static_cast<uint8_t>(token[0])));
    token.remove_prefix(bytes);
  }
  return shown;
}

std::string UnmarkedToken(absl::string_view token) {
  return absl::StrReplaceAll(token, {{"Ġ", " "}, {"Ċ", "\n"}, {"ĉ", "\t"}, {"▁", " "}});
}

int64_t ColumnsOf(absl::string_view text) {
  int64_t columns = 0;
  while (!text.empty()) {
    const CodePoint point = FirstOf(text).value_or(CodePoint{'?', 1});
    columns += ColumnsOf(point.value);
    text.remove_prefix(point.bytes);
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
    const CodePoint point = FirstOf(text).value_or(CodePoint{'?', 1});
    taken += ColumnsOf(point.value);
    if (taken > columns - 1) {
      break;
    }
    absl::StrAppend(&cut, text.substr(0, point.bytes));
    text.remove_prefix(point.bytes);
  }
  return columns > 0 ? cut + "…" : "";
}

std::vector<std::string> NumberedTokens(int64_t count) {
  std::vector<std::string> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(absl::StrCat(i));
  }
  return tokens;
}

}  // namespace attention
