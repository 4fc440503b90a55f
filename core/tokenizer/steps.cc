#include "core/tokenizer/steps.h"

#include "core/runtime/status_macros.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

using nlohmann::json;

constexpr int kMaxNestedSequences = 8;
constexpr size_t kMaxSteps = 16;  // each may hold a copy of the text

absl::Status AppendSteps(const JsonObject& step, const char* list, int depth,
                         std::vector<JsonObject>& steps) {
  const json* type = step.Find("type");
  // The parser's own comparison with a text allocates in a noexcept function.
  if (type == nullptr || !type->is_string() || type->get_ref<const std::string&>() != "Sequence") {
    if (steps.size() == kMaxSteps) {
      return step.Wrong("type", absl::StrCat("at most ", kMaxSteps, " steps"));
    }
    steps.push_back(step);
    return absl::OkStatus();
  }
  if (depth == kMaxNestedSequences) {
    return step.Wrong("type", absl::StrCat("at most ", kMaxNestedSequences, " nested Sequences"));
  }
  ASSIGN_OR_RETURN(const std::vector<JsonObject> inner_steps, step.Objects(list));
  for (const JsonObject& inner : inner_steps) {
    RETURN_IF_ERROR(AppendSteps(inner, list, depth + 1, steps));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int32_t> ParseId(const json& value, const std::string& place) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= uint64_t{kMaxTokenIds}) {
    return absl::InvalidArgumentError(absl::StrCat(place, ": expected an id below ", kMaxTokenIds,
                                                   ", found ", DescribeJson(&value)));
  }
  return value.get<int32_t>();
}

absl::StatusOr<int32_t> ParseId(const JsonObject& object, const char* member) {
  const json* value = object.Find(member);
  return ParseId(value == nullptr ? json() : *value, object.PlaceOf(member));
}

absl::StatusOr<std::vector<JsonObject>> ParseSteps(const JsonObject& file, const char* component,
                                                   const char* list) {
  std::vector<JsonObject> steps;
  if (file.Find(component) != nullptr) {
    ASSIGN_OR_RETURN(const JsonObject first, file.Object(component));
    RETURN_IF_ERROR(AppendSteps(first, list, 0, steps));
  }
  return steps;
}

}  // namespace attention
