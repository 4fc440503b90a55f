// Foreign text in pages: names, tokens and errors come from servers and files, and may be anything.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace attention {

struct Character {
  char32_t code = 0;
  size_t num_bytes = 0;
};

/// The first character of `text`; none where its bytes are no UTF-8 (RFC 3629: no surrogates,
/// nothing overlong). REQUIRES: `text` is not empty.
std::optional<Character> FirstCharacter(absl::string_view text);

/// Valid UTF-8 that stays where it is put: bytes that are no UTF-8, control characters but for tab
/// and newline, and characters that reorder what surrounds them (Unicode Annex 9: embeddings,
/// overrides, isolates) become U+FFFD.
std::string Printable(const std::string& text);

/// `Printable` text that is text wherever it stands in HTML and SVG, within elements and within
/// quoted attributes. Put it into a <bdi> element where its direction of writing is unknown.
std::string EscapeHtml(const std::string& text);

/// JSON that cannot end the <script> element it stands in; ASCII. Bytes that are no UTF-8 become
/// U+FFFD.
std::string ScriptJson(const nlohmann::json& json);

}  // namespace attention
