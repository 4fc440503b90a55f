#include "core/runtime/json_text.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "nlohmann/json.hpp"

namespace attention {

using nlohmann::json;

namespace {

// Returns the position behind the closing quote of the string that begins at `first`.
size_t EndOfString(std::string_view text, size_t first) {
  size_t i = first + 1;
  while (i < text.size() && text[i] != '"') {
    i += text[i] == '\\' ? 2 : 1;
  }
  return std::min(i + 1, text.size());
}

}  // namespace

JsonOutline OutlineOf(std::string_view text) {
  JsonOutline outline;
  std::string_view last_string;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      const size_t end = EndOfString(text, i);
      last_string = text.substr(i, end - i);
      i = end - 1;
    } else if (c == '{' || c == '[') {
      outline.depth = std::max(outline.depth, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ':' && depth == 1) {
      outline.names.push_back(last_string);
    }
  }
  return outline;
}

absl::Status CheckJsonText(std::string_view text, const std::string& source) {
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": expected JSON text, found the byte 0 at offset ", zero));
  }
  const int depth = OutlineOf(text).depth;
  return depth <= kMaxJsonDepth
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(source, ": expected at most ", kMaxJsonDepth,
                                                       " levels of nesting, found ", depth));
}

absl::StatusOr<json> ParseJson(const std::string& text, const std::string& source) {
  RETURN_IF_ERROR(CheckJsonText(text, source));
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": expected JSON, found other text"));
  }
  return parsed;
}

absl::StatusOr<json> ParseJsonObject(const std::string& text, const std::string& source) {
  ASSIGN_OR_RETURN(json parsed, ParseJson(text, source));
  if (!parsed.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": expected a JSON object, found ", parsed.type_name()));
  }
  return parsed;
}

std::string RepeatedJsonName(const std::string& text) {
  std::string repeated;
  std::vector<std::set<std::string>> names;  // of each open object
  const auto note = [&](int /*depth*/, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) {
      names.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      names.pop_back();
    } else if (event == json::parse_event_t::key && repeated.empty() &&
               !names.back().insert(parsed.get<std::string>()).second) {
      repeated = parsed.get<std::string>();
    }
    return true;
  };
  const json parsed = json::parse(text, note, /*allow_exceptions=*/false, /*ignore_comments=*/true);
  return parsed.is_discarded() ? "" : repeated;
}

}  // namespace attention
