#include "client/cli/files/shape_text.h"

#include <algorithm>
#include <limits>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/runtime/status_macros.h"

namespace attention {

namespace {

/// Parses values that `parse` reads, which are called `name` in errors.
template <typename Value, typename Parse>
absl::StatusOr<std::vector<Value>> ParseList(const std::string& text, char separator,
                                             const char* name, Parse parse) {
  std::vector<Value> values;
  for (absl::string_view part : absl::StrSplit(text, separator)) {
    if (!parse(part, &values.emplace_back())) {
      return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": expected ", name,
                                                     " separated by '", std::string(1, separator),
                                                     "', found \"", part, "\""));
    }
  }
  return values;
}

}  // namespace

absl::StatusOr<Shape> ParseShape(const std::string& text) {
  ASSIGN_OR_RETURN(Shape shape,
                   ParseList<int64_t>(text, 'x', "integers", absl::SimpleAtoi<int64_t>));
  for (const int64_t extent : shape) {
    if (extent < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\": expected extents of at least 0, found ", extent));
    }
  }
  // The extents before a 0 are multiplied alone, too (rows of no columns).
  const std::span before_zero(shape.begin(), std::find(shape.begin(), shape.end(), 0));
  if (!CheckedBytes(before_zero, 8).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\": expected a tensor that fits in memory, found too many elements"));
  }
  return shape;
}

absl::StatusOr<std::vector<int64_t>> ParseIntegers(const std::string& text) {
  if (text.empty()) {
    return std::vector<int64_t>();
  }
  return ParseList<int64_t>(text, ',', "integers", absl::SimpleAtoi<int64_t>);
}

absl::StatusOr<std::vector<std::vector<int64_t>>> ParseLists(const std::string& text) {
  std::vector<std::vector<int64_t>> lists;
  for (absl::string_view part : absl::StrSplit(text, ';')) {
    ASSIGN_OR_RETURN(lists.emplace_back(), ParseIntegers(std::string(part)));
  }
  return lists;
}

absl::StatusOr<std::vector<double>> ParseNumbers(const std::string& text) {
  return ParseList<double>(text, ',', "numbers", absl::SimpleAtod);
}

absl::StatusOr<RaggedTokens> ParseTokens(const std::string& text) {
  if (text.empty()) {
    return absl::InvalidArgumentError("\"\": expected token ids such as \"1,2,3;4,5\"");
  }
  RaggedTokens tokens;
  for (absl::string_view part : absl::StrSplit(text, ';')) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> ids, ParseIntegers(std::string(part)));
    for (const int64_t id : ids) {
      if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
        return absl::InvalidArgumentError(
            absl::StrCat("\"", text, "\": expected token ids of 0 to 2147483647, found ", id));
      }
      tokens.ids.push_back(static_cast<int32_t>(id));
    }
    tokens.lengths.push_back(static_cast<int64_t>(ids.size()));
  }
  return tokens;
}

absl::StatusOr<NamedVersion> ParseNamedVersion(const std::string& text) {
  const size_t colon = text.rfind(':');
  NamedVersion result = {.name = text.substr(0, colon)};
  int64_t version = 0;
  const bool has_version = colon != std::string::npos;
  if (result.name.empty() ||
      (has_version && (!absl::SimpleAtoi(text.substr(colon + 1), &version) || version < 1))) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": expected NAME or NAME:VERSION"));
  }
  if (has_version) {
    result.version = version;
  }
  return result;
}

}  // namespace attention
