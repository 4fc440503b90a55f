#include "core/tokenizer/unicode.h"

#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/unistr.h>
#include <unicode/utext.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr int32_t kCapitalIWithDot = 0x130;

// Throws std::bad_alloc after an error of ICU in a call that fails only without memory. An object
// with static storage that is made by such a call is then made again by the next one.
void ThrowOnError(UErrorCode error) {
  if (U_FAILURE(error)) {
    throw std::bad_alloc();
  }
}

// Makes a set from a pattern in the syntax of ICU's UnicodeSet.
icu::UnicodeSet MakeSet(const char* pattern) {
  UErrorCode error = U_ZERO_ERROR;
  icu::UnicodeSet set(icu::UnicodeString::fromUTF8(pattern), error);
  ThrowOnError(error);
  set.freeze();
  return set;
}

absl::Status StatusOf(UErrorCode error) {
  return U_SUCCESS(error) ? absl::OkStatus()
                          : absl::InternalError(absl::StrCat(
                                "normalizer: expected ICU to work, found ", u_errorName(error)));
}

}  // namespace

int32_t NextCharacter(std::string_view text, size_t& at) {
  int32_t character = 0;
  U8_NEXT(text.data(), at, text.size(), character);
  return character;
}

void AppendCharacter(int32_t character, std::string& text) {
  char bytes[U8_MAX_LENGTH];
  int32_t size = 0;
  U8_APPEND_UNSAFE(bytes, size, character);
  text.append(bytes, size);
}

bool IsSpace(int32_t character) { return u_isUWhiteSpace(character); }

bool IsWordCharacter(int32_t character) {
  static const icu::UnicodeSet set = MakeSet(R"([[:Alphabetic:][:M:][:Nd:][:Pc:]\u200C\u200D])");
  return set.contains(character);
}

bool IsNumeric(int32_t character) { return (U_GET_GC_MASK(character) & U_GC_N_MASK) != 0; }

// The `tokenizers` library uses the tables of Unicode 8 and 9. The characters that the patterns
// below list had another category then.
bool IsPunctuation(int32_t character) {
  static const icu::UnicodeSet set =
      MakeSet(R"([[[:P:]&[:age=8.0:]]\u166D\U000111C9)"
              R"(\u0021-\u002F\u003A-\u0040\u005B-\u0060\u007B-\u007E])");
  return set.contains(character);
}

bool IsNonspacingMark(int32_t character) {
  static const icu::UnicodeSet set =
      MakeSet(R"([[[:Mn:]&[:age=8.0:]]-[\u1885\u1886\uA9BD\U000111C9][\u1734]])");
  return set.contains(character);
}

bool IsMark(int32_t character) {
  static const icu::UnicodeSet set = MakeSet(R"([[[:M:]&[:age=9.0:]]-[\U000111C9][\u1CF2\u1CF3]])");
  return set.contains(character);
}

bool IsControl(int32_t character) {
  static const icu::UnicodeSet set =
      MakeSet(R"([[[:Cc:][:Cf:][:Co:]]&[:age=8.0:]-[\u0009\u000A\u000D]])");
  return set.contains(character);
}

bool IsCjkIdeograph(int32_t character) {
  static const icu::UnicodeSet set =
      MakeSet(R"([\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF\U00020000-\U0002A6DF)"
              R"(\U0002A700-\U0002B81F\U0002B920-\U0002CEAF\U0002F800-\U0002FA1F])");
  return set.contains(character);
}

void AppendLowercase(int32_t character, std::string& text) {
  if (character == kCapitalIWithDot) {  // the one letter that becomes two characters
    text += "i\u0307";
  } else {
    AppendCharacter(u_tolower(character), text);
  }
}

namespace {

// The characters that are normalised: those of Unicode 9, as the `tokenizers` library has them.
const icu::UnicodeSet& NormalizedCharacters() {
  static const icu::UnicodeSet set = MakeSet("[:age=9.0:]");
  return set;
}

// Returns whether the character is, or becomes, a combining mark that normalisation may move before
// another one.
bool MayMove(int32_t character) {
  constexpr int32_t kFirstMark = 0x300;
  constexpr int32_t kHalfwidthSoundMarks[] = {0xff9e, 0xff9f};  // marks in NFKC and NFKD
  return character >= kFirstMark &&
         (u_getIntPropertyValue(character, UCHAR_LEAD_CANONICAL_COMBINING_CLASS) != 0 ||
          character == kHalfwidthSoundMarks[0] || character == kHalfwidthSoundMarks[1]) &&
         NormalizedCharacters().contains(character);
}

// Appends the marks in their canonical order: by combining class, those of one class as they were.
void AppendInOrder(const icu::Normalizer2& base, std::string_view marks, std::string& text) {
  std::vector<std::pair<uint8_t, int32_t>> parts;  // class and character
  for (size_t at = 0; at < marks.size();) {
    const int32_t mark = NextCharacter(marks, at);
    icu::UnicodeString decomposed;
    if (!base.getDecomposition(mark, decomposed)) {
      decomposed = icu::UnicodeString(mark);
    }
    for (int32_t i = 0; i < decomposed.length(); i = decomposed.moveIndex32(i, 1)) {
      const int32_t part = decomposed.char32At(i);
      parts.emplace_back(base.getCombiningClass(part), part);
    }
  }
  std::ranges::stable_sort(parts, {}, &std::pair<uint8_t, int32_t>::first);
  for (const auto& [_, part] : parts) {
    AppendCharacter(part, text);
  }
}

// Returns the text with its long runs of combining marks in their canonical order, which changes no
// normal form; empty if it has none. ICU would insert each mark into its place, in time quadratic
// in the length of the run.
std::string WithOrderedMarks(const icu::Normalizer2& base, std::string_view text) {
  constexpr int64_t kLongRun = 32;
  std::string ordered;
  size_t copied = 0;
  size_t run_begin = 0;
  int64_t run_length = 0;
  const auto end_run = [&](size_t end) {
    if (run_length >= kLongRun) {
      ordered.append(text.substr(copied, run_begin - copied));
      AppendInOrder(base, text.substr(run_begin, end - run_begin), ordered);
      copied = end;
    }
    run_length = 0;
  };
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (!MayMove(NextCharacter(text, at))) {
      end_run(begin);
    } else if (run_length++ == 0) {
      run_begin = begin;
    }
  }
  end_run(text.size());
  if (!ordered.empty()) {
    ordered.append(text.substr(copied));
  }
  return ordered;
}

}  // namespace

absl::StatusOr<std::string> Normalized(NormalizationForm form, std::string_view text) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* base = nullptr;
  switch (form) {
    case NormalizationForm::kNfc:
      base = icu::Normalizer2::getNFCInstance(error);
      break;
    case NormalizationForm::kNfd:
      base = icu::Normalizer2::getNFDInstance(error);
      break;
    case NormalizationForm::kNfkc:
      base = icu::Normalizer2::getNFKCInstance(error);
      break;
    case NormalizationForm::kNfkd:
      base = icu::Normalizer2::getNFKDInstance(error);
      break;
  }
  std::string result;
  if (U_SUCCESS(error)) {
    const std::string ordered = WithOrderedMarks(*base, text);
    const std::string_view source = ordered.empty() ? text : ordered;
    icu::StringByteSink<std::string> sink(&result);
    icu::FilteredNormalizer2(*base, NormalizedCharacters())
        .normalizeUTF8(0, icu::StringPiece(source.data(), static_cast<int32_t>(source.size())),
                       sink, nullptr, error);
  }
  RETURN_IF_ERROR(StatusOf(error));
  return result;
}

namespace {

// Returns whether each character is a grapheme of its own: ASCII without line feeds behind returns.
bool HasOnlySingles(std::string_view text) {
  return text.find("\r\n") == std::string_view::npos &&
         std::ranges::all_of(text, [](char byte) { return static_cast<uint8_t>(byte) < 0x80; });
}

std::unique_ptr<const icu::BreakIterator> MakeGraphemeIterator() {
  UErrorCode error = U_ZERO_ERROR;
  std::unique_ptr<const icu::BreakIterator> made(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), error));
  ThrowOnError(error);
  return made;
}

// Copies an iterator, since making one is slow.
std::unique_ptr<icu::BreakIterator> CopyGraphemeIterator() {
  static const std::unique_ptr<const icu::BreakIterator> first = MakeGraphemeIterator();
  std::unique_ptr<icu::BreakIterator> copy(first->clone());
  ThrowOnError(copy == nullptr ? U_MEMORY_ALLOCATION_ERROR : U_ZERO_ERROR);
  return copy;
}

}  // namespace

absl::Status ForEachGrapheme(std::string_view text, absl::FunctionRef<void(std::string_view)> use) {
  if (HasOnlySingles(text)) {
    for (size_t at = 0; at < text.size(); ++at) {
      use(text.substr(at, 1));
    }
    return absl::OkStatus();
  }
  UErrorCode error = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> graphemes = CopyGraphemeIterator();
  const icu::LocalUTextPointer source(
      utext_openUTF8(nullptr, text.data(), std::ssize(text), &error));
  if (U_SUCCESS(error)) {
    graphemes->setText(source.getAlias(), error);
    int32_t begin = 0;
    for (int32_t end = graphemes->next(); end != icu::BreakIterator::DONE;
         end = graphemes->next()) {
      use(text.substr(begin, end - begin));
      begin = end;
    }
  }
  return StatusOf(error);
}

}  // namespace attention
