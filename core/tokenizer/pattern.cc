#include "core/tokenizer/pattern.h"

#include <unicode/unistr.h>
#include <unicode/utext.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/tokenizer/regex_syntax.h"

namespace attention {
namespace {

// ICU's limit counts in units of 10,000 saved states; this allows 100 for each byte. The
// patterns of known tokenizers save about 2.
int32_t TimeLimit(size_t size_bytes) { return 1 + static_cast<int32_t>(size_bytes / 100); }

std::vector<Span> FindLiteral(std::string_view text, const std::string& literal) {
  std::vector<Span> spans;
  size_t between = 0;
  for (size_t at = text.find(literal); at != text.npos; at = text.find(literal, between)) {
    if (between < at) {
      spans.push_back({.begin = between, .end = at});
    }
    between = at + literal.size();
    spans.push_back({.begin = at, .end = between, .is_match = true});
  }
  if (between < text.size()) {
    spans.push_back({.begin = between, .end = text.size()});
  }
  return spans;
}

absl::Status MatchingError(const icu::RegexPattern& regex, size_t size_bytes, UErrorCode error) {
  std::string expression;
  regex.pattern().toUTF8String(expression);
  return absl::InvalidArgumentError(absl::StrCat(
      "text: expected the tokenizer's pattern \"", expression, "\" to match ", size_bytes,
      " bytes within the bounds of time and memory, found ", u_errorName(error)));
}

// An empty match right after a match is passed over, as Oniguruma's binding for Rust does.
void FindMatches(icu::RegexMatcher& matcher, size_t size_bytes, std::vector<Span>& spans,
                 UErrorCode& error) {
  size_t between = 0;
  while (matcher.find(error) && U_SUCCESS(error)) {
    const size_t begin = matcher.start64(error);
    const size_t end = matcher.end64(error);
    if (begin == end && !spans.empty() && spans.back().end == end) {
      continue;
    }
    if (between < begin) {
      spans.push_back({.begin = between, .end = begin});
    }
    spans.push_back({.begin = begin, .end = end, .is_match = true});
    between = end;
  }
  if (between < size_bytes) {
    spans.push_back({.begin = between, .end = size_bytes});
  }
}

absl::StatusOr<std::vector<Span>> FindRegex(std::string_view text, const icu::RegexPattern& regex) {
  UErrorCode error = U_ZERO_ERROR;
  UText utext = UTEXT_INITIALIZER;
  utext_openUTF8(&utext, text.data(), static_cast<int64_t>(text.size()), &error);
  std::vector<Span> spans;
  const std::unique_ptr<icu::RegexMatcher> matcher(regex.matcher(error));
  if (U_SUCCESS(error)) {
    matcher->reset(&utext);
    matcher->setTimeLimit(TimeLimit(text.size()), error);
    FindMatches(*matcher, text.size(), spans, error);
  }
  utext_close(&utext);
  if (U_FAILURE(error)) {
    return MatchingError(regex, text.size(), error);
  }
  return spans;
}

// Each match joins the span that stands before it in the list, unless that is a match too:
// join(before, match) makes the one cover both.
template <typename Join>
std::vector<Span> MergeMatches(const std::vector<Span>& spans, Join join) {
  std::vector<Span> merged;
  bool after_match = false;
  for (const Span& span : spans) {
    if (span.is_match && !after_match && !merged.empty()) {
      join(merged.back(), span);
    } else {
      merged.push_back(span);
    }
    after_match = span.is_match;
  }
  return merged;
}

std::vector<Span> MergeAlike(const std::vector<Span>& spans) {
  std::vector<Span> merged;
  for (const Span& span : spans) {
    if (!merged.empty() && merged.back().is_match == span.is_match) {
      merged.back().end = span.end;
    } else {
      merged.push_back(span);
    }
  }
  return merged;
}

}  // namespace

absl::StatusOr<Pattern> Pattern::FromRegex(const std::string& expression) {
  ASSIGN_OR_RETURN(const std::string icu_expression, ToIcuSyntax(expression));
  UErrorCode error = U_ZERO_ERROR;
  UParseError place;
  Pattern pattern;
  pattern.regex_.reset(icu::RegexPattern::compile(icu::UnicodeString::fromUTF8(icu_expression),
                                                  UREGEX_MULTILINE | UREGEX_UNIX_LINES, place,
                                                  error));
  if (U_FAILURE(error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a regular expression that ICU takes (", u_errorName(error), ")"));
  }
  return pattern;
}

absl::StatusOr<Pattern> Pattern::Parse(const JsonObject& step) {
  ASSIGN_OR_RETURN(const JsonObject object, step.Object("pattern"));
  if (object.Find("String") == nullptr && object.Find("Regex") == nullptr) {
    return step.Wrong("pattern", "{\"String\": ...} or {\"Regex\": ...}");
  }
  const char* kind = object.Find("String") != nullptr ? "String" : "Regex";
  ASSIGN_OR_RETURN(const std::string text, object.String(kind));
  if (std::string_view(kind) == "String" && !text.empty()) {
    Pattern pattern;
    pattern.literal_ = text;
    return pattern;
  }
  absl::StatusOr<Pattern> pattern = FromRegex(text.empty() ? "(?:)" : text);
  if (!pattern.ok()) {
    return object.Wrong(kind, std::string(pattern.status().message()));
  }
  return pattern;
}

absl::StatusOr<std::vector<Span>> Pattern::Find(std::string_view text) const {
  if (regex_ == nullptr) {
    return FindLiteral(text, literal_);
  }
  return FindRegex(text, *regex_);
}

absl::StatusOr<SplitBehavior> ParseSplitBehavior(const JsonObject& step) {
  ASSIGN_OR_RETURN(const std::string name, step.StringOr("behavior", "Isolated"));
  constexpr std::pair<const char*, SplitBehavior> kBehaviors[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  };
  for (const auto& [known, behavior] : kBehaviors) {
    if (name == known) {
      return behavior;
    }
  }
  return step.Wrong("behavior",
                    "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

void Split(const Piece& piece, std::vector<Span> spans, SplitBehavior behavior,
           std::vector<Piece>& pieces) {
  if (behavior == SplitBehavior::kContiguous) {
    spans = MergeAlike(spans);
  } else if (behavior == SplitBehavior::kMergedWithPrevious) {
    spans = MergeMatches(spans, [](Span& before, const Span& match) { before.end = match.end; });
  } else if (behavior == SplitBehavior::kMergedWithNext) {
    std::reverse(spans.begin(), spans.end());
    spans = MergeMatches(spans, [](Span& after, const Span& match) { after.begin = match.begin; });
    std::reverse(spans.begin(), spans.end());
  }
  for (const Span& span : spans) {
    const bool dropped = behavior == SplitBehavior::kRemoved && span.is_match;
    if (!dropped && span.begin < span.end) {
      pieces.push_back(piece.Slice(span.begin, span.end));
    }
  }
}

}  // namespace attention
