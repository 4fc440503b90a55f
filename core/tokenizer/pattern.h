// Finds the matches of a pattern of a tokenizer.json.
#pragma once

#include <unicode/regex.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/runtime/json_object.h"
#include "core/runtime/status_macros.h"
#include "core/tokenizer/unicode.h"

namespace attention {

/// Bytes [begin, end) of a text.
struct Span {
  size_t begin = 0;
  size_t end = 0;
  bool is_match = false;
};

/// A function that receives spans one by one, so that they need no memory. An error that it returns
/// ends the search.
using SpanSink = absl::FunctionRef<absl::Status(const Span& span)>;

/// A plain string, or a regular expression in the syntax of regex_syntax.h. Thread-safe.
class Pattern {
 public:
  /// Reads the member "pattern" of a step: {"String": text} or {"Regex": expression}.
  /// INVALID_ARGUMENT names it.
  static absl::StatusOr<Pattern> Parse(const JsonObject& step);
  /// Makes the pattern of a regular expression. The message of INVALID_ARGUMENT is what was
  /// expected.
  static absl::StatusOr<Pattern> FromRegex(const std::string& expression);

  /// Passes on the matches and the spans between them, in order. Together they cover `text`.
  /// INVALID_ARGUMENT when matching needs more than a fixed number of steps per byte, or too deep a
  /// stack.
  absl::Status Find(std::string_view text, SpanSink spans) const;

  /// Returns the plain string; empty for a regular expression.
  const std::string& literal() const { return literal_; }

 private:
  std::string literal_;
  std::shared_ptr<const icu::RegexPattern> regex_;  // null for a plain string
};

/// Passes on each character for which `is_match(character)` holds as a match of its own, and the
/// spans between the matches.
template <typename IsMatch>
absl::Status FindCharacters(std::string_view text, IsMatch is_match, SpanSink spans) {
  size_t between = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (!is_match(NextCharacter(text, at))) {
      continue;
    }
    if (between < begin) {
      RETURN_IF_ERROR(spans({.begin = between, .end = begin}));
    }
    RETURN_IF_ERROR(spans({.begin = begin, .end = at, .is_match = true}));
    between = at;
  }
  return between < text.size() ? spans({.begin = between, .end = text.size()}) : absl::OkStatus();
}

}  // namespace attention
