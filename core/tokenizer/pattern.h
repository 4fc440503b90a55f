// Where a pattern of a tokenizer.json matches.
#pragma once

#include <unicode/regex.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/runtime/status_macros.h"
#include "core/tokenizer/json_object.h"
#include "core/tokenizer/unicode.h"

namespace attention {

/// Bytes [begin, end) of a text.
struct Span {
  size_t begin = 0;
  size_t end = 0;
  bool is_match = false;
};

/// Takes spans one by one, so that a text of many needs no memory for them; its error ends the
/// search.
using SpanSink = absl::FunctionRef<absl::Status(const Span& span)>;

/// A plain string, or a regular expression as regex_syntax.h has it. Thread-safe.
class Pattern {
 public:
  /// The member "pattern" of a step: {"String": text} or {"Regex": expression}. INVALID_ARGUMENT
  /// names it.
  static absl::StatusOr<Pattern> Parse(const JsonObject& step);
  /// INVALID_ARGUMENT, with what is expected as its message.
  static absl::StatusOr<Pattern> FromRegex(const std::string& expression);

  /// Hands on matches and what is between them, in order; they cover `text`. INVALID_ARGUMENT when
  /// matching needs more than a fixed number of steps per byte, or too deep a stack.
  absl::Status Find(std::string_view text, SpanSink spans) const;

  /// The plain string; empty for a regular expression.
  const std::string& literal() const { return literal_; }

 private:
  std::string literal_;
  std::shared_ptr<const icu::RegexPattern> regex_;  // null for a plain string
};

/// Each character that `is_match(character)` holds for is a match of its own.
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
