#include "client/page/escape.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/runtime/utf8.h"

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
