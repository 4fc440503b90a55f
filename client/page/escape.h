// Escaping of foreign text in pages: names, tokens and errors come from servers and files, and may
// contain anything.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace attention {

/// Returns `text` as valid UTF-8 that does not affect its surroundings: bytes that are not UTF-8,
/// control characters except tab and newline, and characters that reorder the text around them
/// (Unicode Annex 9: embeddings, overrides, isolates) become U+FFFD.
std::string Printable(const std::string& text);

/// Returns Printable(text), escaped for elements and quoted attributes of HTML and SVG. Where the
/// direction of writing is unknown, put the result into a <bdi> element.
std::string EscapeHtml(const std::string& text);

/// Returns JSON in ASCII that cannot end the <script> element around it. Bytes that are not UTF-8
/// become U+FFFD.
std::string ScriptJson(const nlohmann::json& json);

}  // namespace attention
