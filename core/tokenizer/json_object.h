// Reads a tokenizer.json. Each value knows its place in the file, and every error names it. No
// function recurses over the JSON, so deep text is safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace attention {

/// The limit of ids: larger ids are refused, so that a wrong file cannot make tables of ids huge.
inline constexpr int64_t kMaxTokenIds = int64_t{1} << 24;

/// Returns the description of a value in an error: "a list", "\"text\"", "7". `value` is null for a
/// missing member.
std::string Describe(const nlohmann::json* value);

/// A JSON object of the file. It borrows the JSON. All errors are INVALID_ARGUMENT.
class JsonObject {
 public:
  static absl::StatusOr<JsonObject> Create(const nlohmann::json& value, const std::string& place);

  /// Returns a member; null when it is missing or null.
  const nlohmann::json* Find(const char* member) const;
  std::string PlaceOf(const char* member) const;
  /// Returns the error "place.member: expected ..., found ...".
  absl::Status Wrong(const char* member, const std::string& expected) const;

  /// Returns a member that must be present.
  absl::StatusOr<bool> Bool(const char* member) const;
  absl::StatusOr<std::string> String(const char* member) const;
  absl::StatusOr<int32_t> Id(const char* member) const;  // in [0, kMaxTokenIds)
  absl::StatusOr<JsonObject> Object(const char* member) const;
  absl::StatusOr<const nlohmann::json*> List(const char* member) const;
  absl::StatusOr<std::vector<JsonObject>> Objects(const char* member) const;

  /// Returns a member, or `otherwise` when it is missing or null.
  absl::StatusOr<bool> BoolOr(const char* member, bool otherwise) const;
  absl::StatusOr<std::string> StringOr(const char* member, const std::string& otherwise) const;

 private:
  JsonObject(const nlohmann::json& value, const std::string& place)
      : value_(&value), place_(place) {}

  const nlohmann::json* value_;
  std::string place_;  // empty for the whole file
};

/// Reads an id in [0, kMaxTokenIds). Errors name `place`.
absl::StatusOr<int32_t> ParseId(const nlohmann::json& value, const std::string& place);

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
