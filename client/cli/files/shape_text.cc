#include "client/cli/files/shape_text.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/utf8.h"

namespace attention {

namespace {

/// Parses values that `parse` reads, which are called `name` in errors.
template <typename Value, typename Parse>
absl::StatusOr<std::vector<Value>> ParseList(const std::string& text, char separator,
                                             const char* name, Parse parse) {
  std::vector<Value> values;
  for (absl::string_view part : absl::StrSplit(text, separator)) {
    if (!parse(part, &values.emplace_back())) {
      const bool is_large = std::is_same_v<Value, int64_t> && part.size() > 18 &&
                            part.find_first_not_of("-0123456789") == absl::string_view::npos;
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\": expected ", name, is_large ? " from -2^63 to 2^63 - 1" : "",
                       " separated by '", std::string(1, separator), "', found \"", part, "\""));
    }
  }
  return values;
}

bool ParseTokenId(absl::string_view text, int32_t* id) {
  return absl::SimpleAtoi(text, id) && *id >= 0;
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

absl::StatusOr<std::vector<int64_t>> ParseIndices(const std::string& text) {
  constexpr int64_t kMostIndex = 65535;
  std::vector<int64_t> indices;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<std::string> ends = absl::StrSplit(part, absl::MaxSplits('-', 1));
    int64_t first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last) ||
        first < 0 || last < first || last > kMostIndex) {
      return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": expected numbers of 0 to ",
                                                     kMostIndex, " or ranges, as 0-3,7, found \"",
                                                     part, "\""));
    }
    for (; first <= last; ++first) {
      indices.push_back(first);
    }
  }
  return indices;
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

absl::StatusOr<std::vector<int32_t>> ParseTokenIds(const std::string& text) {
  return ParseList<int32_t>(text, ',', "token ids of 0 to 2147483647", ParseTokenId);
}

absl::StatusOr<RaggedTokens> ParseTokens(const std::string& text) {
  if (text.empty()) {
    return absl::InvalidArgumentError("\"\": expected token ids such as \"1,2,3;4,5\"");
  }
  RaggedTokens tokens;
  for (absl::string_view part : absl::StrSplit(text, ';')) {
    std::vector<int32_t> ids;
    if (!part.empty()) {
      ASSIGN_OR_RETURN(ids, ParseTokenIds(std::string(part)));
    }
    tokens.ids.insert(tokens.ids.end(), ids.begin(), ids.end());
    tokens.lengths.push_back(std::ssize(ids));
  }
  return tokens;
}

absl::StatusOr<std::string> ParseUtf8(const std::string& text) {
  for (absl::string_view rest = text; !rest.empty();) {
    const std::optional<Character> first = FirstCharacter(rest);
    if (!first.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("expected UTF-8, found byte 0x%02x at offset %d",
                          static_cast<uint8_t>(rest[0]), text.size() - rest.size()));
    }
    rest.remove_prefix(first->num_bytes);
  }
  return text;
}

absl::StatusOr<NamedVersion> ParseNamedVersion(const std::string& text) {
  RETURN_IF_ERROR(ParseUtf8(text).status());
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
