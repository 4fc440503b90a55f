#include "client/page/escape.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace attention {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

bool IsControl(char32_t code) {
  return (code < 0x20 && code != '\t' && code != '\n') || (code >= 0x7F && code < 0xA0);
}

bool ReordersOthers(char32_t code) {
  return (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

/// U+FFFE and U+FFFF are not allowed in XML, and so not in SVG.
bool IsNoCharacter(char32_t code) { return code == 0xFFFE || code == 0xFFFF; }

}  // namespace

std::optional<Character> FirstCharacter(absl::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) {
    return Character{first, 1};
  }
  const size_t num_bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < num_bytes) {
    return std::nullopt;
  }
  char32_t code = first & (0x7F >> num_bytes);
  for (size_t i = 1; i < num_bytes; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xC0) != 0x80) {
      return std::nullopt;
    }
    code = (code << 6) | (byte & 0x3F);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[num_bytes] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    return std::nullopt;
  }
  return Character{code, num_bytes};
}

std::string Printable(const std::string& text) {
  std::string printable;
  for (absl::string_view rest = text; !rest.empty();) {
    const Character character = FirstCharacter(rest).value_or(Character{0xFFFF, 1});
    const char32_t code = character.code;
    const bool is_shown = !IsControl(code) && !ReordersOthers(code) && !IsNoCharacter(code);
    absl::StrAppend(&printable, is_shown ? rest.substr(0, character.num_bytes) : kReplacement);
    rest.remove_prefix(character.num_bytes);
  }
  return printable;
}

std::string EscapeHtml(const std::string& text) {
  return absl::StrReplaceAll(
      Printable(text),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string ScriptJson(const nlohmann::json& json) {
  return absl::StrReplaceAll(json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace),
                             {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
}

}  // namespace attention
