#include "core/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "core/runtime/status_macros.h"
#include "core/tokenizer/byte_level.h"
#include "core/tokenizer/pattern.h"

namespace attention {
namespace {

// https://github.com/openai/gpt-2/blob/master/src/encoder.py
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

absl::StatusOr<PreTokenizer::Step> ParseByteLevel(const JsonObject& step) {
  ASSIGN_OR_RETURN(const bool add_prefix_space, step.Bool("add_prefix_space"));
  ASSIGN_OR_RETURN(const bool use_regex, step.BoolOr("use_regex", true));
  ASSIGN_OR_RETURN(const Pattern pattern, Pattern::FromRegex(kGpt2Words));
  return [=](Piece piece, std::vector<Piece>& words) -> absl::Status {
    if (add_prefix_space && !piece.text.starts_with(' ')) {
      Prepend(" ", piece);
    }
    std::vector<Span> spans = {{.begin = 0, .end = piece.text.size()}};
    if (use_regex) {
      ASSIGN_OR_RETURN(spans, pattern.Find(piece.text));
    }
    const size_t first = words.size();
    Split(piece, std::move(spans), SplitBehavior::kIsolated, words);
    std::for_each(words.begin() + first, words.end(), SpellBytes);
    return absl::OkStatus();
  };
}

absl::StatusOr<PreTokenizer::Step> ParseBertPreTokenizer(const JsonObject&) {
  return [](const Piece& piece, std::vector<Piece>& words) {
    std::vector<Piece> parts;
    Split(piece, FindCharacters(piece.text, IsSpace), SplitBehavior::kRemoved, parts);
    for (const Piece& part : parts) {
      Split(part, FindCharacters(part.text, IsPunctuation), SplitBehavior::kIsolated, words);
    }
    return absl::OkStatus();
  };
}

absl::StatusOr<PreTokenizer::Step> ParseWhitespaceSplit(const JsonObject&) {
  return [](const Piece& piece, std::vector<Piece>& words) {
    Split(piece, FindCharacters(piece.text, IsSpace), SplitBehavior::kRemoved, words);
    return absl::OkStatus();
  };
}

// Runs of word characters, and runs of others that are no white space.
absl::StatusOr<PreTokenizer::Step> ParseWhitespace(const JsonObject&) {
  return [](const Piece& piece, std::vector<Piece>& words) {
    std::vector<Piece> parts;
    Split(piece, FindCharacters(piece.text, IsSpace), SplitBehavior::kRemoved, parts);
    for (const Piece& part : parts) {
      Split(part, FindCharacters(part.text, IsWordCharacter), SplitBehavior::kContiguous, words);
    }
    return absl::OkStatus();
  };
}

absl::StatusOr<PreTokenizer::Step> ParseDigits(const JsonObject& step) {
  ASSIGN_OR_RETURN(const bool individual, step.Bool("individual_digits"));
  return [individual](const Piece& piece, std::vector<Piece>& words) {
    Split(piece, FindCharacters(piece.text, IsNumeric),
          individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, words);
    return absl::OkStatus();
  };
}

absl::StatusOr<PreTokenizer::Step> ParsePunctuation(const JsonObject& step) {
  ASSIGN_OR_RETURN(const SplitBehavior behavior, ParseSplitBehavior(step));
  return [behavior](const Piece& piece, std::vector<Piece>& words) {
    Split(piece, FindCharacters(piece.text, IsPunctuation), behavior, words);
    return absl::OkStatus();
  };
}

absl::StatusOr<PreTokenizer::Step> ParseSplit(const JsonObject& step) {
  ASSIGN_OR_RETURN(const Pattern pattern, Pattern::Parse(step));
  ASSIGN_OR_RETURN(const SplitBehavior behavior, ParseSplitBehavior(step));
  ASSIGN_OR_RETURN(const bool invert, step.Bool("invert"));
  return [=](const Piece& piece, std::vector<Piece>& words) -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<Span> spans, pattern.Find(piece.text));
    for (Span& span : spans) {
      span.is_match = span.is_match != invert;
    }
    Split(piece, std::move(spans), behavior, words);
    return absl::OkStatus();
  };
}

enum class PrependScheme { kAlways, kFirst, kNever };

struct MetaspaceOptions {
  int32_t character = 0;
  std::string replacement;  // the same as text
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = true;
};

// Before there was prepend_scheme, add_prefix_space said always or never.
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

void SplitAtMetaspace(const MetaspaceOptions& options, Piece piece, std::vector<Piece>& words) {
  Rewrite(piece, [&](int32_t character, std::string& text) {
    AppendCharacter(character == ' ' ? options.character : character, text);
  });
  const bool prepends = options.scheme == PrependScheme::kAlways ||
                        (options.scheme == PrependScheme::kFirst && piece.first_bytes > 0);
  if (prepends && !piece.text.starts_with(options.replacement)) {
    Prepend(options.replacement, piece);
  }
  if (!options.split) {
    words.push_back(std::move(piece));
    return;
  }
  const auto is_metaspace = [&](int32_t character) { return character == options.character; };
  Split(piece, FindCharacters(piece.text, is_metaspace), SplitBehavior::kMergedWithNext, words);
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
  return [options](Piece piece, std::vector<Piece>& words) {
    SplitAtMetaspace(options, std::move(piece), words);
    return absl::OkStatus();
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

absl::StatusOr<std::vector<Piece>> PreTokenizer::Apply(Piece piece) const {
  std::vector<Piece> words;
  words.push_back(std::move(piece));
  for (const PreTokenizer::Step& step : steps_) {
    std::vector<Piece> parts;
    for (Piece& word : words) {
      RETURN_IF_ERROR(step(std::move(word), parts));
    }
    words = std::move(parts);
  }
  return words;
}

}  // namespace attention
