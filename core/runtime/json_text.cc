#include "core/runtime/json_text.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "nlohmann/json.hpp"

namespace attention {

using nlohmann::json;

namespace {

/// Thrown by the parser's callback to end the parsing. No return value of the callback does that.
struct TooDeep {};

/// Parses text whose depth is checked meanwhile. The value is discarded if the text is not JSON.
absl::StatusOr<json> ParseBounded(std::string_view text, const std::string& source,
                                  bool ignore_comments) {
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": expected JSON text, found the byte 0 at offset ", zero));
  }
  const auto check_depth = [](int depth, json::parse_event_t event, const json& /*parsed*/) {
    if (depth >= kMaxJsonDepth &&
        (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start)) {
      throw TooDeep();
    }
    return true;
  };
  try {
    return json::parse(text, check_depth, /*allow_exceptions=*/false, ignore_comments);
  } catch (const TooDeep&) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": expected at most ", kMaxJsonDepth,
                                                   " levels of nesting, found more"));
  }
}

}  // namespace

absl::Status CheckJsonText(std::string_view text, const std::string& source) {
  return ParseBounded(text, source, /*ignore_comments=*/true).status();
}

absl::StatusOr<json> ParseJson(std::string_view text, const std::string& source) {
  ASSIGN_OR_RETURN(json parsed, ParseBounded(text, source, /*ignore_comments=*/false));
  if (parsed.is_discarded()) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": expected JSON, found other text"));
  }
  return parsed;
}

absl::StatusOr<json> ParseJsonObject(std::string_view text, const std::string& source) {
  ASSIGN_OR_RETURN(json parsed, ParseJson(text, source));
  if (!parsed.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": expected a JSON object, found ", parsed.type_name()));
  }
  return parsed;
}

std::string RepeatedJsonName(std::string_view text) {
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
