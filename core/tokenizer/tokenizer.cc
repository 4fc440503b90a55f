#include "core/tokenizer/tokenizer.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/runtime/json_object.h"
#include "core/runtime/json_text.h"
#include "core/runtime/prefixed.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/text_file.h"
#include "core/runtime/utf8.h"
#include "core/tokenizer/added_tokens.h"
#include "core/tokenizer/byte_level.h"
#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/post_processor.h"
#include "core/tokenizer/pre_tokenizer.h"
#include "core/tokenizer/subword_model.h"
#include "core/tokenizer/unicode.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

constexpr int64_t kMaxTextBytes = int64_t{64} << 20;

/// The largest file: twice the largest known one (Gemma 3's).
constexpr size_t kMaxFileBytes = size_t{64} << 20;

/// The least number of bytes of text for each token, since white space and unknown words around a
/// token may be dropped.
constexpr int64_t kMinBytesPerToken = 256;
/// The largest factor by which normalizing shortens a text, apart from what it removes: a
/// mathematical letter of 4 bytes becomes a plain letter of 1 byte.
constexpr int64_t kMaxShrinkage = 4;

absl::Status CheckText(std::string_view text, int64_t max_bytes) {
  if (std::ssize(text) > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("text: expected at most ", max_bytes, " bytes, found ", text.size()));
  }
  if (const std::optional<size_t> invalid = FindInvalidUtf8(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat("text: expected UTF-8, found an invalid sequence at byte ", *invalid));
  }
  return absl::OkStatus();
}

// Returns the text as one piece. Only the scheme "first" of Metaspace uses first_bytes.
Piece WholeText(std::string_view text) {
  Piece piece{.text = std::string(text)};
  if (!text.empty()) {
    NextCharacter(text, piece.first_bytes);
  }
  return piece;
}

}  // namespace

struct Tokenizer::Parts {
  static absl::StatusOr<std::unique_ptr<const Parts>> Parse(const JsonObject& file);

  void SpellTokens();
  absl::Status CheckPostProcessor() const;
  void MeasureTokens();

  Normalizer normalizer;
  AddedTokens added_tokens;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<SubwordModel> model;
  PostProcessor post_processor;
  std::unordered_map<int32_t, std::string> spelled_tokens;  // bytes, by id; ids may have gaps
  int64_t vocab_size = 0;
  int64_t bytes_per_token = kMinBytesPerToken;  // the most bytes of text for one token
};

absl::StatusOr<std::unique_ptr<const Tokenizer::Parts>> Tokenizer::Parts::Parse(
    const JsonObject& file) {
  auto parts = std::make_unique<Parts>();
  ASSIGN_OR_RETURN(parts->normalizer, Normalizer::Parse(file));
  ASSIGN_OR_RETURN(parts->pre_tokenizer, PreTokenizer::Parse(file));
  ASSIGN_OR_RETURN(parts->model, ParseSubwordModel(file));
  ASSIGN_OR_RETURN(parts->added_tokens,
                   AddedTokens::Parse(file, parts->model->vocabulary(), parts->normalizer));
  ASSIGN_OR_RETURN(parts->post_processor, PostProcessor::Parse(file));
  parts->SpellTokens();
  parts->MeasureTokens();
  RETURN_IF_ERROR(parts->CheckPostProcessor());
  return parts;
}

void Tokenizer::Parts::SpellTokens() {
  const auto spell = [&](int32_t id, const std::string& bytes) {
    spelled_tokens[id] = bytes;
    vocab_size = std::max<int64_t>(vocab_size, id + 1);
  };
  const std::string& space =
      pre_tokenizer.space().empty() ? normalizer.space() : pre_tokenizer.space();
  const auto spell_token = [&](int32_t id, const std::string& token) {
    if (pre_tokenizer.is_byte_level()) {
      spell(id, attention::BytesOf(token));
    } else {
      spell(id, space.empty() ? token : absl::StrReplaceAll(token, {{space, " "}}));
    }
  };
  const Vocabulary& vocabulary = model->vocabulary();
  for (const auto& [token, id] : vocabulary.tokens()) {
    spell_token(id, token);
  }
  for (const auto& [id, token] : vocabulary.hidden()) {
    spell_token(id, token);
  }
  for (int byte = 0; model->has_byte_tokens() && byte < 256; ++byte) {
    if (const auto id = vocabulary.Find(ByteTokenName(static_cast<uint8_t>(byte)))) {
      spell(*id, std::string(1, static_cast<char>(byte)));
    }
  }
  for (const auto& [id, token] : added_tokens.tokens()) {
    spell(id, token.content);
  }
}

void Tokenizer::Parts::MeasureTokens() {
  int64_t longest = 0;
  for (const auto& [token, id] : model->vocabulary().tokens()) {
    longest = std::max<int64_t>(longest, std::ssize(token));
  }
  for (const auto& [id, token] : added_tokens.tokens()) {
    longest = std::max<int64_t>(longest, std::ssize(token.content));
  }
  bytes_per_token = std::max(kMinBytesPerToken, kMaxShrinkage * longest);
}

// Checks the ids of the post-processor, with which the embeddings of a model are indexed.
absl::Status Tokenizer::Parts::CheckPostProcessor() const {
  for (const PostProcessor::Part& part : post_processor.parts()) {
    for (const int32_t id : part.ids) {
      if (!spelled_tokens.contains(id)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "post_processor: expected ids of the vocabulary or of added tokens, found ", id));
      }
    }
  }
  return absl::OkStatus();
}

/// Converts one text to ids. It keeps the ids and nothing else of the text.
class Tokenizer::Encoding {
 public:
  Encoding(const Parts& parts, const EncodeOptions& options) : parts_(parts), options_(options) {}

  absl::Status AddText(std::string_view text);
  absl::StatusOr<TokenizedText> Finish() const;

 private:
  absl::Status AddSegment(Segment segment);
  absl::Status AddWord(const Piece& word);
  absl::Status CheckCount() const;

  const Parts& parts_;
  const EncodeOptions& options_;
  std::vector<int32_t> ids_;
  int words_ = 0;
};

absl::Status Tokenizer::Encoding::AddText(std::string_view text) {
  RETURN_IF_ERROR(CallYield(options_.yield));
  return parts_.added_tokens.SplitText(WholeText(text), [this](Segment segment) -> absl::Status {
    if (segment.id != Segment::kText) {
      return AddSegment(std::move(segment));
    }
    RETURN_IF_ERROR(parts_.normalizer.Apply(segment.piece));
    return parts_.added_tokens.SplitNormalized(
        std::move(segment.piece), [this](Segment part) { return AddSegment(std::move(part)); });
  });
}

absl::Status Tokenizer::Encoding::AddSegment(Segment segment) {
  if (segment.id == Segment::kText) {
    return parts_.pre_tokenizer.Apply(std::move(segment.piece),
                                      [this](const Piece& word) { return AddWord(word); });
  }
  ids_.push_back(segment.id);
  return CheckCount();
}

absl::Status Tokenizer::Encoding::AddWord(const Piece& word) {
  constexpr int kWordsBetweenAsks = 1024;
  if (++words_ % kWordsBetweenAsks == 0) {
    RETURN_IF_ERROR(CallYield(options_.yield));
  }
  RETURN_IF_ERROR(parts_.model->Tokenize(word.text, options_.yield, ids_));
  return CheckCount();
}

absl::Status Tokenizer::Encoding::CheckCount() const {
  if (options_.max_tokens.has_value() &&
      parts_.post_processor.CountOf(std::ssize(ids_), options_.add_special_tokens) >
          *options_.max_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("text: expected at most ", *options_.max_tokens, " tokens, found more"));
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenizedText> Tokenizer::Encoding::Finish() const {
  RETURN_IF_ERROR(CheckCount());
  PostProcessor::TypedIds processed =
      parts_.post_processor.Apply(ids_, options_.add_special_tokens);
  TokenizedText result{
      .ids = std::move(processed.ids), .tokens = {}, .type_ids = std::move(processed.type_ids)};
  result.tokens.reserve(result.ids.size());
  for (const int32_t id : result.ids) {
    result.tokens.push_back(ShownBytes(parts_.spelled_tokens.at(id)));
  }
  return result;
}

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(const std::string& json) {
  ASSIGN_OR_RETURN(const nlohmann::json parsed, ParseJsonObject(json, "tokenizer"));
  ASSIGN_OR_RETURN(const JsonObject file, JsonObject::Create(parsed, ""));
  ASSIGN_OR_RETURN(std::unique_ptr<const Parts> parts, Parts::Parse(file));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(parts)));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string json, ReadTextFile(path, kMaxFileBytes));
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Create(json);
  return tokenizer.ok() ? std::move(tokenizer) : Prefixed(path, tokenizer.status());
}

absl::StatusOr<TokenizedText> Tokenizer::Encode(std::string_view text,
                                                const EncodeOptions& options) const {
  RETURN_IF_ERROR(CheckText(
      text, options.max_tokens.has_value() ? MaxTextBytes(*options.max_tokens) : kMaxTextBytes));
  Encoding encoding(*parts_, options);
  RETURN_IF_ERROR(encoding.AddText(text));
  return encoding.Finish();
}

int64_t Tokenizer::MaxTextBytes(int64_t max_tokens) const {
  const int64_t per_token = parts_->bytes_per_token;
  return max_tokens > kMaxTextBytes / per_token ? kMaxTextBytes : max_tokens * per_token;
}

std::string_view Tokenizer::BytesOf(int32_t id) const {
  const auto found = parts_->spelled_tokens.find(id);
  return found == parts_->spelled_tokens.end() ? std::string_view() : found->second;
}

int64_t Tokenizer::vocab_size() const { return parts_->vocab_size; }

}  // namespace attention
