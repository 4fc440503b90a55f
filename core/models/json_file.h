// A JSON file of a checkpoint, which may say anything.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace attention {

/// NOT_FOUND, with the system's reason, when it cannot be opened; INVALID_ARGUMENT for more than
/// `max_bytes`.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t max_bytes);

/// INVALID_ARGUMENT, said of `source`, for text that is nested deeper than kMaxJsonDepth: a parser
/// would run out of stack.
absl::Status CheckJsonDepth(const std::string& text, const std::string& source);

/// INVALID_ARGUMENT, said of `source`, for text that is no JSON object or deeper than
/// kMaxJsonDepth.
absl::StatusOr<nlohmann::json> ParseJsonObject(const std::string& text, const std::string& source);

}  // namespace attention
