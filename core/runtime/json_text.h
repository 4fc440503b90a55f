// JSON text of a file, which may say anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace attention {

/// Deeper text is refused: to copy or print its values would take a stack as deep.
inline constexpr int kMaxJsonDepth = 32;

/// What can be told of JSON text before it is parsed.
struct JsonOutline {
  /// Of the objects and lists within each other.
  int depth = 0;
  /// Of the outermost object's members, all of them, as written: in quotes. Borrowed.
  std::vector<std::string_view> names = {};
};

/// Of any text; means what it says only where the text is JSON.
JsonOutline OutlineOf(std::string_view text);

/// INVALID_ARGUMENT, said of `source`, for text that no parser may see: nested deeper than
/// kMaxJsonDepth, or with a byte 0, where the parser would stop and leave the rest unread.
absl::Status CheckJsonText(std::string_view text, const std::string& source);

/// What the text says. INVALID_ARGUMENT, said of `source`, for text that is no JSON, and as
/// CheckJsonText.
absl::StatusOr<nlohmann::json> ParseJson(const std::string& text, const std::string& source);

/// As ParseJson, and INVALID_ARGUMENT for any other value than an object.
absl::StatusOr<nlohmann::json> ParseJsonObject(const std::string& text, const std::string& source);

}  // namespace attention
