// A JSON file of a checkpoint, which may say anything.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/runtime/text_file.h"
#include "nlohmann/json_fwd.hpp"

namespace attention {

/// INVALID_ARGUMENT, said of `source`, for text that is nested deeper than kMaxJsonDepth: a parser
/// would run out of stack.
absl::Status CheckJsonDepth(const std::string& text, const std::string& source);

/// INVALID_ARGUMENT, said of `source`, for text that is no JSON object or deeper than
/// kMaxJsonDepth.
absl::StatusOr<nlohmann::json> ParseJsonObject(const std::string& text, const std::string& source);

}  // namespace attention
