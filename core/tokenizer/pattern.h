// Where a pattern of a tokenizer.json matches, and what a split makes of it.
#pragma once

#include <unicode/regex.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tokenizer/json_object.h"
#include "core/tokenizer/piece.h"

namespace attention {

/// Bytes [begin, end) of a text.
struct Span {
  size_t begin = 0;
  size_t end = 0;
  bool is_match = false;
};

/// A plain string, or a regular expression as regex_syntax.h has it. Thread-safe.
class Pattern {
 public:
  /// The member "pattern" of a step: {"String": text} or {"Regex": expression}. INVALID_ARGUMENT
  /// names it.
  static absl::StatusOr<Pattern> Parse(const JsonObject& step);
  /// INVALID_ARGUMENT, with what is expected as its message.
  static absl::StatusOr<Pattern> FromRegex(const std::string& expression);

  /// Matches and what is between them, in order; they cover `text`. INVALID_ARGUMENT when matching
  /// needs more than a fixed number of steps per byte, or too deep a stack.
  absl::StatusOr<std::vector<Span>> Find(std::string_view text) const;

  /// The plain string; empty for a regular expression.
  const std::string& literal() const { return literal_; }

 private:
  std::string literal_;
  std::shared_ptr<const icu::RegexPattern> regex_;  // null for a plain string
};

/// Each character that `is_match(character)` holds for is a match of its own.
template <typename IsMatch>
std::vector<Span> FindCharacters(std::string_view text, IsMatch is_match) {
  std::vector<Span> spans;
  size_t between = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (!is_match(NextCharacter(text, at))) {
      continue;
    }
    if (between < begin) {
      spans.push_back({.begin = between, .end = begin});
    }
    spans.push_back({.begin = begin, .end = at, .is_match = true});
    between = at;
  }
  if (between < text.size()) {
    spans.push_back({.begin = between, .end = text.size()});
  }
  return spans;
}

enum class SplitBehavior {
  kRemoved,             // a match is dropped
  kIsolated,            // a match is a piece of its own
  kMergedWithPrevious,  // a match ends the piece before it; one right after a match stands alone
  kMergedWithNext,      // a match begins the piece after it; one right before a match stands alone
  kContiguous,          // matches that touch are one piece
};

absl::StatusOr<SplitBehavior> ParseSplitBehavior(const JsonObject& step);

/// Appends the parts of `piece` that are not empty. REQUIRES: `spans` cover its text.
void Split(const Piece& piece, std::vector<Span> spans, SplitBehavior behavior,
           std::vector<Piece>& pieces);

}  // namespace attention
