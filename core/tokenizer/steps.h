// Reads the steps of a tokenizer.json, each an object with a "type", and the ids of its tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/runtime/json_object.h"
#include "nlohmann/json.hpp"

namespace attention {

/// The limit of ids: larger ids are refused, so that a wrong file cannot make tables of ids huge.
inline constexpr int64_t kMaxTokenIds = int64_t{1} << 24;

/// Reads an id in [0, kMaxTokenIds). Errors name `place`.
absl::StatusOr<int32_t> ParseId(const nlohmann::json& value, const std::string& place);
/// Reads the id that is a member of `object`.
absl::StatusOr<int32_t> ParseId(const JsonObject& object, const char* member);

/// Returns the steps of a component, such as the normalizer, in order: none if it is null, the
/// steps in its `list` if it is a Sequence, or else the component itself. Sequences may be nested,
/// at most 8 deep, with 16 steps in total.
absl::StatusOr<std::vector<JsonObject>> ParseSteps(const JsonObject& file, const char* component,
                                                   const char* list);

/// A type of step, and the function that reads it.
template <typename Step>
struct StepKind {
  const char* type;
  absl::StatusOr<Step> (*parse)(const JsonObject& step);
};

/// Reads a step by its "type", which must be one of `kinds`.
template <typename Step, size_t kCount>
absl::StatusOr<Step> ParseStep(const JsonObject& step, const StepKind<Step> (&kinds)[kCount]) {
  absl::StatusOr<std::string> type = step.String("type");
  if (!type.ok()) {
    return type.status();
  }
  for (const StepKind<Step>& kind : kinds) {
    if (*type == kind.type) {
      return kind.parse(step);
    }
  }
  return step.Wrong("type", absl::StrCat("one of Sequence, ",
                                         absl::StrJoin(kinds, ", ", [](std::string* out, auto& k) {
                                           out->append(k.type);
                                         })));
}

}  // namespace attention
