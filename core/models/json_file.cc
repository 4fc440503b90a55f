#include "core/models/json_file.h"

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/json_outline.h"
#include "nlohmann/json.hpp"

namespace attention {

using nlohmann::json;

absl::Status CheckJsonDepth(const std::string& text, const std::string& source) {
  const int depth = OutlineOf(text).depth;
  return depth <= kMaxJsonDepth
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(source, ": expected at most ", kMaxJsonDepth,
                                                       " levels of nesting, found ", depth));
}

absl::StatusOr<json> ParseJsonObject(const std::string& text, const std::string& source) {
  RETURN_IF_ERROR(CheckJsonDepth(text, source));
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": expected a JSON object, found other text"));
  }
  return parsed;
}

}  // namespace attention
