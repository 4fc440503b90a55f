// Reads JSON objects member by member. Each value knows its place in the file, and every error
// names it. No function recurses over the JSON, so deep text is safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace attention {

/// Returns the description of a value in an error: "a list of 2", "\"text\"", "7", "none" for a
/// missing member (null). A long one is cut.
std::string DescribeJson(const nlohmann::json* value);

/// A JSON object, which borrows the JSON. A member that is null counts as missing. All errors are
/// INVALID_ARGUMENT "place.member: expected ..., found ...".
class JsonObject {
 public:
  /// The bounds of a number, both included.
  template <typename Value>
  struct Range {
    Value first = 0;
    Value last = 0;
  };

  /// Returns the object `value`; its members are named after `place`, unless that is empty.
  static absl::StatusOr<JsonObject> Create(const nlohmann::json& value, const std::string& place);
  /// Returns the outermost object of the file at `path`, which all errors name.
  /// REQUIRES: `value` is an object.
  static JsonObject OfFile(const nlohmann::json& value, const std::string& path);

  /// Returns a member; null when it is missing or null.
  const nlohmann::json* Find(const std::string& member) const;
  /// Returns whether the member is there and null.
  bool IsNull(const std::string& member) const;
  std::string PlaceOf(const std::string& member) const { return prefix_ + member; }
  /// Returns the error about a member, as it is in the file or with another text of what is found.
  absl::Status Wrong(const std::string& member, const std::string& expected) const;
  absl::Status Wrong(const std::string& member, const std::string& expected,
                     const std::string& found) const;

  /// Returns a member that must be present.
  absl::StatusOr<bool> Bool(const std::string& member) const;
  absl::StatusOr<std::string> String(const std::string& member) const;
  absl::StatusOr<int64_t> WholeNumber(const std::string& member, Range<int64_t> range) const;
  absl::StatusOr<double> Number(const std::string& member, Range<double> range) const;
  absl::StatusOr<JsonObject> Object(const std::string& member) const;
  absl::StatusOr<const nlohmann::json*> List(const std::string& member) const;
  absl::StatusOr<std::vector<JsonObject>> Objects(const std::string& member) const;
  absl::StatusOr<std::vector<std::string>> Strings(const std::string& member) const;
  /// Returns an object whose members are all strings, by their names.
  absl::StatusOr<std::map<std::string, std::string>> StringsByName(const std::string& member) const;
  /// Returns a list of whole numbers, each in `range`.
  absl::StatusOr<std::vector<int64_t>> WholeNumbers(const std::string& member,
                                                    Range<int64_t> range) const;
  /// Returns a list of `count` numbers.
  absl::StatusOr<std::vector<double>> Numbers(const std::string& member, int64_t count,
                                              Range<double> range) const;

  /// Returns a member, or `otherwise` when it is missing or null.
  absl::StatusOr<bool> BoolOr(const std::string& member, bool otherwise) const;
  absl::StatusOr<std::string> StringOr(const std::string& member,
                                       const std::string& otherwise) const;

 private:
  JsonObject(const nlohmann::json& value, std::string prefix)
      : value_(&value), prefix_(std::move(prefix)) {}

  const nlohmann::json* value_;
  std::string prefix_;  // of the names of members
};

}  // namespace attention
