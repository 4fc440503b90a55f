// JSON text from a file that is not trusted.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace attention {

/// The deepest text that is accepted: copying or printing deeper values would need as deep a stack.
inline constexpr int kMaxJsonDepth = 32;

/// Returns INVALID_ARGUMENT, which names `source`, for text with or without comments that is nested
/// deeper than kMaxJsonDepth, or that has a byte 0, where the parser would stop and leave the rest
/// unread. Text that is not JSON is accepted, unless its valid beginning is nested too deeply.
absl::Status CheckJsonText(std::string_view text, const std::string& source);

/// Parses text without comments. INVALID_ARGUMENT names `source`: for text that is not JSON, and
/// for the errors of CheckJsonText.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, const std::string& source);

/// Does the same, and returns INVALID_ARGUMENT for any value but an object.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, const std::string& source);

/// Returns the first name that an object of the text gives to two members, of which the parsers
/// keep the last; none: there is no such name. `text` is JSON that CheckJsonText accepts, with or
/// without comments.
std::optional<std::string> RepeatedJsonName(std::string_view text);

}  // namespace attention
