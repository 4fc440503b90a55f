// JSON text from a file that is not trusted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace attention {

/// The deepest text that is accepted: copying or printing deeper values would need as deep a stack.
inline constexpr int kMaxJsonDepth = 32;

/// Properties of JSON text that are known before it is parsed.
struct JsonOutline {
  /// The depth of nested objects and lists.
  int depth = 0;
  /// The names of all members of the outermost object, as written, in quotes. Borrowed.
  std::vector<std::string_view> names = {};
};

/// Returns the outline of any text. It is meaningful only if the text is JSON.
JsonOutline OutlineOf(std::string_view text);

/// Returns INVALID_ARGUMENT, which names `source`, for text that must not reach the parser: text
/// nested deeper than kMaxJsonDepth, or with a byte 0, where the parser would stop and leave the
/// rest unread.
absl::Status CheckJsonText(std::string_view text, const std::string& source);

/// Parses the text. INVALID_ARGUMENT names `source`: for text that is not JSON, and for the errors
/// of CheckJsonText.
absl::StatusOr<nlohmann::json> ParseJson(const std::string& text, const std::string& source);

/// Does the same, and returns INVALID_ARGUMENT for any value but an object.
absl::StatusOr<nlohmann::json> ParseJsonObject(const std::string& text, const std::string& source);

/// Returns the first name that an object of the text gives to two members, of which the parsers
/// keep the last, or an empty text. `text` is JSON that CheckJsonText accepts, with or without
/// comments.
std::string RepeatedJsonName(const std::string& text);

}  // namespace attention
