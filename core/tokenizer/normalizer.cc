#include "core/tokenizer/normalizer.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/tokenizer/character_map.h"
#include "core/tokenizer/pattern.h"
#include "core/tokenizer/steps.h"

namespace attention {
namespace {

constexpr int32_t kReplacementCharacter = 0xFFFD;

/// The largest factor by which a text may grow. U+FDFA becomes 11 times as long in NFKD, more than
/// any other character.
constexpr size_t kMaxGrowth = 16;
constexpr size_t kMaxAddedBytes = 1024;

template <typename Keep>
void Filter(Piece& piece, Keep keep) {
  Rewrite(piece, [&](int32_t character, std::string& text) {
    if (keep(character)) {
      AppendCharacter(character, text);
    }
  });
}

absl::Status NormalizePiece(NormalizationForm form, Piece& piece) {
  // Normalizes the bytes of the first character alone, to get their new length. If it is composed
  // with the next one, the bytes may end within a character, which then counts as a whole.
  ASSIGN_OR_RETURN(const std::string first,
                   Normalized(form, std::string_view(piece.text).substr(0, piece.first_bytes)));
  ASSIGN_OR_RETURN(piece.text, Normalized(form, piece.text));
  const size_t end = std::min(first.size(), piece.text.size());
  piece.first_bytes = 0;
  while (piece.first_bytes < end) {
    NextCharacter(piece.text, piece.first_bytes);
  }
  return absl::OkStatus();
}

template <NormalizationForm kForm>
absl::StatusOr<Normalizer::Step> ParseForm(const JsonObject&) {
  return [](size_t, Piece& piece) { return NormalizePiece(kForm, piece); };
}

absl::StatusOr<Normalizer::Step> ParseLowercase(const JsonObject&) {
  return [](size_t, Piece& piece) {
    Rewrite(piece, AppendLowercase);
    return absl::OkStatus();
  };
}

absl::StatusOr<Normalizer::Step> ParseStripAccents(const JsonObject&) {
  return [](size_t, Piece& piece) {
    Filter(piece, [](int32_t character) { return !IsMark(character); });
    return absl::OkStatus();
  };
}

absl::StatusOr<Normalizer::Step> ParsePrepend(const JsonObject& step) {
  ASSIGN_OR_RETURN(const std::string text, step.String("prepend"));
  return [text](size_t, Piece& piece) {
    Prepend(text, piece);
    return absl::OkStatus();
  };
}

absl::StatusOr<Normalizer::Step> ParseStrip(const JsonObject& step) {
  ASSIGN_OR_RETURN(const bool left, step.Bool("strip_left"));
  ASSIGN_OR_RETURN(const bool right, step.Bool("strip_right"));
  return [left, right](size_t, Piece& piece) {
    size_t begin = left ? piece.text.size() : 0;
    size_t end = right ? 0 : piece.text.size();
    for (size_t at = 0; at < piece.text.size();) {
      const size_t here = at;
      if (!IsSpace(NextCharacter(piece.text, at))) {
        begin = std::min(begin, here);
        end = std::max(end, at);
      }
    }
    piece = piece.Slice(begin, std::max(begin, end));
    return absl::OkStatus();
  };
}

absl::Status CheckSize(size_t size_bytes, size_t max_bytes) {
  return size_bytes <= max_bytes
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat("normalizer: expected at most ", max_bytes,
                                                       " bytes of the text, found more"));
}

absl::Status Replace(const Pattern& pattern, const std::string& content, size_t max_bytes,
                     Piece& piece) {
  Piece replaced;
  RETURN_IF_ERROR(pattern.Find(piece.text, [&](const Span& span) {
    const size_t begin = replaced.text.size();
    const size_t first_end = std::clamp(piece.first_bytes, span.begin, span.end);
    if (span.is_match) {
      replaced.text += content;
    } else {
      replaced.text.append(piece.text, span.begin, span.end - span.begin);
    }
    if (span.begin < piece.first_bytes && span.end <= piece.first_bytes) {
      replaced.first_bytes = replaced.text.size();
    } else if (!span.is_match && first_end > span.begin) {
      replaced.first_bytes = begin + first_end - span.begin;
    }
    return CheckSize(replaced.text.size(), max_bytes);
  }));
  piece = std::move(replaced);
  return absl::OkStatus();
}

absl::StatusOr<Normalizer::Step> ParseReplace(const JsonObject& step) {
  ASSIGN_OR_RETURN(const Pattern pattern, Pattern::Parse(step));
  ASSIGN_OR_RETURN(const std::string content, step.String("content"));
  return [pattern, content](size_t max_bytes, Piece& piece) {
    return Replace(pattern, content, max_bytes, piece);
  };
}

struct BertOptions {
  bool clean_text = false;
  bool handle_chinese_chars = false;
  bool strip_accents = false;
  bool lowercase = false;
};

// Removes control characters, and replaces each character of white space by a space.
void CleanText(Piece& piece) {
  Filter(piece, [](int32_t character) {
    return character != 0 && character != kReplacementCharacter && !IsControl(character);
  });
  Rewrite(piece, [](int32_t character, std::string& text) {
    AppendCharacter(IsSpace(character) ? ' ' : character, text);
  });
}

// Puts spaces around each ideograph, so that it becomes a word.
void SpaceIdeographs(Piece& piece) {
  Rewrite(piece, [](int32_t character, std::string& text) {
    const char* space = IsCjkIdeograph(character) ? " " : "";
    text += space;
    AppendCharacter(character, text);
    text += space;
  });
}

absl::Status NormalizeAsBert(const BertOptions& options, Piece& piece) {
  if (options.clean_text) {
    CleanText(piece);
  }
  if (options.handle_chinese_chars) {
    SpaceIdeographs(piece);
  }
  if (options.strip_accents) {
    RETURN_IF_ERROR(NormalizePiece(NormalizationForm::kNfd, piece));
    Filter(piece, [](int32_t character) { return !IsNonspacingMark(character); });
  }
  if (options.lowercase) {
    Rewrite(piece, AppendLowercase);
  }
  return absl::OkStatus();
}

absl::StatusOr<Normalizer::Step> ParseBertNormalizer(const JsonObject& step) {
  BertOptions options;
  ASSIGN_OR_RETURN(options.clean_text, step.Bool("clean_text"));
  ASSIGN_OR_RETURN(options.handle_chinese_chars, step.Bool("handle_chinese_chars"));
  ASSIGN_OR_RETURN(options.lowercase, step.Bool("lowercase"));
  ASSIGN_OR_RETURN(options.strip_accents, step.BoolOr("strip_accents", options.lowercase));
  return [options](size_t, Piece& piece) { return NormalizeAsBert(options, piece); };
}

absl::StatusOr<Normalizer::Step> ParsePrecompiled(const JsonObject& step) {
  ASSIGN_OR_RETURN(CharacterMap map, CharacterMap::Parse(step));
  return [map = std::make_shared<const CharacterMap>(std::move(map))](size_t, Piece& piece) {
    return map->Apply(piece);
  };
}

constexpr StepKind<Normalizer::Step> kNormalizers[] = {
    {"NFC", ParseForm<NormalizationForm::kNfc>},
    {"NFD", ParseForm<NormalizationForm::kNfd>},
    {"NFKC", ParseForm<NormalizationForm::kNfkc>},
    {"NFKD", ParseForm<NormalizationForm::kNfkd>},
    {"Lowercase", ParseLowercase},
    {"StripAccents", ParseStripAccents},
    {"BertNormalizer", ParseBertNormalizer},
    {"Replace", ParseReplace},
    {"Prepend", ParsePrepend},
    {"Strip", ParseStrip},
    {"Precompiled", ParsePrecompiled},
};

// Returns the text by which a Replace step replaces a space; empty for any other step.
absl::StatusOr<std::string> SpaceOf(const JsonObject& step) {
  ASSIGN_OR_RETURN(const std::string type, step.String("type"));
  if (type != "Replace") {
    return "";
  }
  ASSIGN_OR_RETURN(const Pattern pattern, Pattern::Parse(step));
  return pattern.literal() == " " ? step.String("content") : "";
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::Parse(const JsonObject& file) {
  ASSIGN_OR_RETURN(const std::vector<JsonObject> steps,
                   ParseSteps(file, "normalizer", "normalizers"));
  Normalizer normalizer;
  for (const JsonObject& object : steps) {
    ASSIGN_OR_RETURN(Normalizer::Step step, ParseStep(object, kNormalizers));
    ASSIGN_OR_RETURN(const std::string space, SpaceOf(object));
    normalizer.steps_.push_back(std::move(step));
    normalizer.space_ = space.empty() ? normalizer.space_ : space;
  }
  return normalizer;
}

absl::Status Normalizer::Apply(Piece& piece) const {
  const size_t max_bytes = kMaxGrowth * piece.text.size() + kMaxAddedBytes;
  for (const Normalizer::Step& step : steps_) {
    RETURN_IF_ERROR(step(max_bytes, piece));
    RETURN_IF_ERROR(CheckSize(piece.text.size(), max_bytes));
  }
  return absl::OkStatus();
}

}  // namespace attention
