#include "core/tokenizer/pattern.h"

#include <unicode/unistr.h>
#include <unicode/utext.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/tokenizer/regex_syntax.h"

namespace attention {
namespace {

// ICU's limit counts in units of 10,000 saved states; this allows 100 for each byte. The
// patterns of known tokenizers save about 2.
int32_t TimeLimit(size_t size_bytes) { return 1 + static_cast<int32_t>(size_bytes / 100); }

absl::Status FindLiteral(std::string_view text, const std::string& literal, SpanSink spans) {
  size_t between = 0;
  for (size_t at = text.find(literal); at != text.npos; at = text.find(literal, between)) {
    if (between < at) {
      RETURN_IF_ERROR(spans({.begin = between, .end = at}));
    }
    between = at + literal.size();
    RETURN_IF_ERROR(spans({.begin = at, .end = between, .is_match = true}));
  }
  return between < text.size() ? spans({.begin = between, .end = text.size()}) : absl::OkStatus();
}

absl::Status MatchingError(const icu::RegexPattern& regex, size_t size_bytes, UErrorCode error) {
  std::string expression;
  regex.pattern().toUTF8String(expression);
  return absl::InvalidArgumentError(absl::StrCat(
      "text: expected the tokenizer's pattern \"", expression, "\" to match ", size_bytes,
      " bytes within the bounds of time and memory, found ", u_errorName(error)));
}

// Passes on the matches. It skips an empty match right after a match, as Oniguruma's binding for
// Rust does. `error` receives errors of the search.
absl::Status FindMatches(icu::RegexMatcher& matcher, size_t size_bytes, SpanSink spans,
                         UErrorCode& error) {
  size_t between = 0;
  std::optional<size_t> last_end;
  while (matcher.find(error) && U_SUCCESS(error)) {
    const size_t begin = matcher.start64(error);
    const size_t end = matcher.end64(error);
    if (begin == end && last_end == end) {
      continue;
    }
    if (between < begin) {
      RETURN_IF_ERROR(spans({.begin = between, .end = begin}));
    }
    RETURN_IF_ERROR(spans({.begin = begin, .end = end, .is_match = true}));
    between = end;
    last_end = end;
  }
  const bool has_rest = U_SUCCESS(error) && between < size_bytes;
  return has_rest ? spans({.begin = between, .end = size_bytes}) : absl::OkStatus();
}

absl::Status FindRegex(std::string_view text, const icu::RegexPattern& regex, SpanSink spans) {
  UErrorCode error = U_ZERO_ERROR;
  UText utext = UTEXT_INITIALIZER;
  const icu::LocalUTextPointer opened(
      utext_openUTF8(&utext, text.data(), static_cast<int64_t>(text.size()), &error));
  const std::unique_ptr<icu::RegexMatcher> matcher(regex.matcher(error));
  absl::Status status;
  if (U_SUCCESS(error)) {
    matcher->reset(&utext);
    matcher->setTimeLimit(TimeLimit(text.size()), error);
    status = FindMatches(*matcher, text.size(), spans, error);
  }
  return U_FAILURE(error) ? MatchingError(regex, text.size(), error) : status;
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

absl::Status Pattern::Find(std::string_view text, SpanSink spans) const {
  return regex_ == nullptr ? FindLiteral(text, literal_, spans) : FindRegex(text, *regex_, spans);
}

}  // namespace attention
