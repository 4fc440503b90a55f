#include "core/tokenizer/pre_tokenizer.h"

#include <utility>

#include "core/runtime/status_macros.h"
#include "core/tokenizer/byte_level.h"
#include "core/tokenizer/pattern.h"
#include "core/tokenizer/steps.h"

namespace attention {
namespace {

// The pattern of https://github.com/openai/gpt-2/blob/master/src/encoder.py.
constexpr char kGpt2Words[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void SpellBytes(Piece& piece) {
  Rewrite(piece, [](int32_t character, std::string& text) {
    std::string bytes;
    AppendCharacter(character, bytes);
    for (const char byte : bytes) {
      AppendCharacter(ByteCharacter(static_cast<uint8_t>(byte)), text);
    }
  });
}

absl::Status SplitAt(const Pattern& pattern, const Piece& piece, SplitBehavior behavior,
                     PieceSink words) {
  return Split(piece, behavior, words,
               [&](SpanSink spans) { return pattern.Find(piece.text, spans); });
}

absl::Status SplitAt(bool (*is_match)(int32_t character), const Piece& piece,
                     SplitBehavior behavior, PieceSink words) {
  return Split(piece, behavior, words,
               [&](SpanSink spans) { return FindCharacters(piece.text, is_match, spans); });
}

absl::StatusOr<PreTokenizer::Step> ParseByteLevel(const JsonObject& step) {
  ASSIGN_OR_RETURN(const bool add_prefix_space, step.Bool("add_prefix_space"));
  ASSIGN_OR_RETURN(const bool use_regex, step.BoolOr("use_regex", true));
  ASSIGN_OR_RETURN(const Pattern pattern, Pattern::FromRegex(kGpt2Words));
  return [=](Piece piece, PieceSink words) {
    if (add_prefix_space && !piece.text.starts_with(' ')) {
      Prepend(" ", piece);
    }
    const auto spell = [&](Piece word) {
      SpellBytes(word);
      return words(std::move(word));
    };
    return use_regex ? SplitAt(pattern, piece, SplitBehavior::kIsolated, spell)
                     : spell(std::move(piece));
  };
}

absl::StatusOr<PreTokenizer::Step> ParseBertPreTokenizer(const JsonObject&) {
  return [](const Piece& piece, PieceSink words) {
    return SplitAt(IsSpace, piece, SplitBehavior::kRemoved, [&](const Piece& part) {
      return SplitAt(IsPunctuation, part, SplitBehavior::kIsolated, words);
    });
  };
}

absl::StatusOr<PreTokenizer::Step> ParseWhitespaceSplit(const JsonObject&) {
  return [](const Piece& piece, PieceSink words) {
    return SplitAt(IsSpace, piece, SplitBehavior::kRemoved, words);
  };
}

// Reads Whitespace, whose words are consecutive word characters, or consecutive other characters
// except white space.
absl::StatusOr<PreTokenizer::Step> ParseWhitespace(const JsonObject&) {
  return [](const Piece& piece, PieceSink words) {
    return SplitAt(IsSpace, piece, SplitBehavior::kRemoved, [&](const Piece& part) {
      return SplitAt(IsWordCharacter, part, SplitBehavior::kContiguous, words);
    });
  };
}

absl::StatusOr<PreTokenizer::Step> ParseDigits(const JsonObject& step) {
  ASSIGN_OR_RETURN(const bool individual, step.Bool("individual_digits"));
  const SplitBehavior behavior = individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
  return [behavior](const Piece& piece, PieceSink words) {
    return SplitAt(IsNumeric, piece, behavior, words);
  };
}

absl::StatusOr<PreTokenizer::Step> ParsePunctuation(const JsonObject& step) {
  ASSIGN_OR_RETURN(const SplitBehavior behavior, ParseSplitBehavior(step));
  return [behavior](const Piece& piece, PieceSink words) {
    return SplitAt(IsPunctuation, piece, behavior, words);
  };
}

absl::StatusOr<PreTokenizer::Step> ParseSplit(const JsonObject& step) {
  ASSIGN_OR_RETURN(const Pattern pattern, Pattern::Parse(step));
  ASSIGN_OR_RETURN(const SplitBehavior behavior, ParseSplitBehavior(step));
  ASSIGN_OR_RETURN(const bool invert, step.Bool("invert"));
  return [=](const Piece& piece, PieceSink words) {
    return Split(piece, behavior, words, [&](SpanSink spans) {
      return pattern.Find(piece.text, [&](Span span) {
        span.is_match = span.is_match != invert;
        return spans(span);
      });
    });
  };
}

enum class PrependScheme { kAlways, kFirst, kNever };

struct MetaspaceOptions {
  int32_t character = 0;
  std::string replacement;  // the same as text
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = true;
};

// Reads prepend_scheme, or the older add_prefix_space, which means always or never.
absl::StatusOr<PrependScheme> ParsePrependScheme(const JsonObject& step) {
  ASSIGN_OR_RETURN(const bool add_prefix_space, step.BoolOr("add_prefix_space", true));
  ASSIGN_OR_RETURN(const std::string name,
                   step.StringOr("prepend_scheme", add_prefix_space ? "always" : "never"));
  if (!add_prefix_space && name != "never") {
    return step.Wrong("prepend_scheme", "never beside \"add_prefix_space\": false");
  }
  constexpr std::pair<const char*, PrependScheme> kSchemes[] = {
      {"always", PrependScheme::kAlways},
      {"first", PrependScheme::kFirst},
      {"never", PrependScheme::kNever},
  };
  for (const auto& [known, scheme] : kSchemes) {
    if (name == known) {
      return scheme;
    }
  }
  return step.Wrong("prepend_scheme", "always, first or never");
}

absl::Status SplitAtMetaspace(const MetaspaceOptions& options, Piece piece, PieceSink words) {
  Rewrite(piece, [&](int32_t character, std::string& text) {
    AppendCharacter(character == ' ' ? options.character : character, text);
  });
  const bool prepends = options.scheme == PrependScheme::kAlways ||
                        (options.scheme == PrependScheme::kFirst && piece.first_bytes > 0);
  if (prepends && !piece.text.starts_with(options.replacement)) {
    Prepend(options.replacement, piece);
  }
  if (!options.split) {
    return words(std::move(piece));
  }
  const auto is_metaspace = [&](int32_t character) { return character == options.character; };
  return Split(piece, SplitBehavior::kMergedWithNext, words,
               [&](SpanSink spans) { return FindCharacters(piece.text, is_metaspace, spans); });
}

absl::StatusOr<PreTokenizer::Step> ParseMetaspace(const JsonObject& step) {
  MetaspaceOptions options;
  ASSIGN_OR_RETURN(options.replacement, step.String("replacement"));
  ASSIGN_OR_RETURN(options.scheme, ParsePrependScheme(step));
  ASSIGN_OR_RETURN(options.split, step.BoolOr("split", true));
  size_t size = 0;
  if (!options.replacement.empty()) {
    options.character = NextCharacter(options.replacement, size);
  }
  if (size == 0 || size != options.replacement.size()) {
    return step.Wrong("replacement", "one character");
  }
  return [options](Piece piece, PieceSink words) {
    return SplitAtMetaspace(options, std::move(piece), words);
  };
}

constexpr StepKind<PreTokenizer::Step> kPreTokenizers[] = {
    {"ByteLevel", ParseByteLevel},   {"BertPreTokenizer", ParseBertPreTokenizer},
    {"Whitespace", ParseWhitespace}, {"WhitespaceSplit", ParseWhitespaceSplit},
    {"Split", ParseSplit},           {"Metaspace", ParseMetaspace},
    {"Digits", ParseDigits},         {"Punctuation", ParsePunctuation},
};

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Parse(const JsonObject& file) {
  ASSIGN_OR_RETURN(const std::vector<JsonObject> steps,
                   ParseSteps(file, "pre_tokenizer", "pretokenizers"));
  PreTokenizer pre_tokenizer;
  for (const JsonObject& object : steps) {
    ASSIGN_OR_RETURN(PreTokenizer::Step step, ParseStep(object, kPreTokenizers));
    pre_tokenizer.steps_.push_back(std::move(step));
    ASSIGN_OR_RETURN(const std::string type, object.String("type"));
    if (type == "ByteLevel") {
      pre_tokenizer.is_byte_level_ = true;
    } else if (type == "Metaspace") {
      ASSIGN_OR_RETURN(pre_tokenizer.space_, object.String("replacement"));
    }
  }
  return pre_tokenizer;
}

absl::Status PreTokenizer::ApplyFrom(size_t first, Piece piece, PieceSink words) const {
  if (first == steps_.size()) {
    return words(std::move(piece));
  }
  return steps_[first](std::move(piece),
                       [&](Piece part) { return ApplyFrom(first + 1, std::move(part), words); });
}

}  // namespace attention
