#include "client/plot/token_text.h"

#include <locale.h>
#include <wchar.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/runtime/utf8.h"

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

// Characters that show nothing by themselves, but belong to what a text shows: spaces, fillers, and
// selectors of the form of the character before.
constexpr Range kBlank[] = {
    {0x0020, 0x0020}, {0x00A0, 0x00A0}, {0x034F, 0x034F}, {0x115F, 0x1160},
    {0x1680, 0x1680}, {0x17B4, 0x17B5}, {0x180B, 0x180F}, {0x2000, 0x200A},
    {0x202F, 0x202F}, {0x205F, 0x205F}, {0x2800, 0x2800}, {0x3000, 0x3000},
    {0x3164, 0x3164}, {0xFE00, 0xFE0F}, {0xFFA0, 0xFFA0}, {0xE0100, 0xE01EF}};

bool IsIn(std::span<const Range> ranges, uint32_t value) {
  return std::ranges::any_of(
      ranges, [value](const Range& range) { return value >= range.first && value <= range.last; });
}

std::string CodePoint(uint32_t value) { return absl::StrFormat("<U+%04X>", value); }

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
  if (value < 0x20 || value == 0x7F) {
    return ShownControl(value);
  }
  if ((value >= 0x80 && value < 0xA0) || IsIn(kInvisible, value)) {
    return CodePoint(value);
  }
  return std::string(bytes);
}

/// Returns a token of nothing but blank characters by their code points, and spaces as ␣; absent
/// for any other token.
std::optional<std::string> ShownBlank(absl::string_view token) {
  std::string shown;
  while (!token.empty()) {
    const std::optional<Character> first = FirstCharacter(token);
    if (!first.has_value() || !IsIn(kBlank, first->code)) {
      return std::nullopt;
    }
    const bool is_space = first->code == ' ' || first->code == 0x00A0;
    absl::StrAppend(&shown, is_space ? "␣" : CodePoint(first->code));
    token.remove_prefix(first->num_bytes);
  }
  return shown.empty() ? std::nullopt : std::optional(shown);
}

/// Returns the columns of a character, by a UTF-8 locale whatever the program's is.
int64_t ColumnsOf(uint32_t value) {
  static const locale_t unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  const locale_t previous = uselocale(unicode);
  const int columns = wcwidth(static_cast<wchar_t>(value));
  uselocale(previous);
  return columns < 0 ? 1 : columns;
}

}  // namespace

std::string ShownToken(absl::string_view token) {
  if (const std::optional<std::string> blank = ShownBlank(token)) {
    return *blank;
  }
  return token.empty() ? "∅" : absl::StrReplaceAll(ShownLine(token), {{" ", "␣"}, {"\u00A0", "␣"}});
}

std::string ShownLine(absl::string_view line) {
  std::string shown;
  while (!line.empty()) {
    const std::optional<Character> first = FirstCharacter(line);
    const size_t bytes = first.has_value() ? first->num_bytes : 1;
    absl::StrAppend(&shown, first.has_value()
                                ? ShownCharacter(line.substr(0, bytes), first->code)
                                : absl::StrFormat("\\x%02X", static_cast<uint8_t>(line[0])));
    line.remove_prefix(bytes);
  }
  return shown;
}

std::string ShownText(absl::string_view text) {
  return absl::StrJoin(
      absl::StrSplit(text, '\n'), "\n",
      [](std::string* shown, absl::string_view line) { absl::StrAppend(shown, ShownLine(line)); });
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
