#include "core/tokenizer/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/runtime/status_macros.h"
#include "core/tokenizer/added_tokens.h"
#include "core/tokenizer/byte_level.h"
#include "core/tokenizer/json_object.h"
#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/post_processor.h"
#include "core/tokenizer/pre_tokenizer.h"
#include "core/tokenizer/subword_model.h"
#include "core/tokenizer/unicode.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

constexpr size_t kMaxTextBytes = size_t{64} << 20;

absl::Status CheckText(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("text: expected at most ", kMaxTextBytes, " bytes, found ", text.size()));
  }
  if (const std::optional<size_t> invalid = FindInvalidUtf8(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat("text: expected UTF-8, found an invalid sequence at byte ", *invalid));
  }
  return absl::OkStatus();
}

// Only Metaspace's scheme "first" asks which piece the first character went into.
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
  absl::StatusOr<std::vector<Segment>> FindAddedTokens(std::string_view text) const;
  absl::Status AppendIds(Segment segment, std::vector<int32_t>& ids) const;

  Normalizer normalizer;
  AddedTokens added_tokens;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<SubwordModel> model;
  PostProcessor post_processor;
  std::vector<std::optional<std::string>> spelled_tokens;  // bytes, by id; ids may have gaps
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
  RETURN_IF_ERROR(parts->CheckPostProcessor());
  return parts;
}

void Tokenizer::Parts::SpellTokens() {
  const auto spell = [&](int32_t id, const std::string& bytes) {
    if (id >= std::ssize(spelled_tokens)) {
      spelled_tokens.resize(id + 1);
    }
    spelled_tokens[id] = bytes;
  };
  const std::string& space =
      pre_tokenizer.space().empty() ? normalizer.space() : pre_tokenizer.space();
  const Vocabulary& vocabulary = model->vocabulary();
  for (const auto& [token, id] : vocabulary.tokens()) {
    if (pre_tokenizer.is_byte_level()) {
      spell(id, attention::BytesOf(token));
    } else {
      spell(id, space.empty() ? token : absl::StrReplaceAll(token, {{space, " "}}));
    }
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

// Ids that nobody else would refuse before a model's embeddings are indexed with them.
absl::Status Tokenizer::Parts::CheckPostProcessor() const {
  for (const PostProcessor::Part& part : post_processor.parts()) {
    for (const int32_t id : part.ids) {
      if (id >= std::ssize(spelled_tokens) || !spelled_tokens[id].has_value()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "post_processor: expected ids of the vocabulary or of added tokens, found ", id));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Segment>> Tokenizer::Parts::FindAddedTokens(
    std::string_view text) const {
  std::vector<Segment> as_they_stand;
  added_tokens.SplitText(WholeText(text), as_they_stand);
  std::vector<Segment> segments;
  for (Segment& segment : as_they_stand) {
    if (segment.id != Segment::kText) {
      segments.push_back(std::move(segment));
      continue;
    }
    RETURN_IF_ERROR(normalizer.Apply(segment.piece));
    added_tokens.SplitNormalized(segment.piece, segments);
  }
  return segments;
}

absl::Status Tokenizer::Parts::AppendIds(Segment segment, std::vector<int32_t>& ids) const {
  if (segment.id != Segment::kText) {
    ids.push_back(segment.id);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<Piece> words, pre_tokenizer.Apply(std::move(segment.piece)));
  for (const Piece& word : words) {
    RETURN_IF_ERROR(model->Tokenize(word.text, ids));
  }
  return absl::OkStatus();
}

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(const std::string& json) {
  const nlohmann::json parsed = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) {
    return absl::InvalidArgumentError("expected a JSON object as tokenizer, found other text");
  }
  ASSIGN_OR_RETURN(const JsonObject file, JsonObject::Create(parsed, ""));
  ASSIGN_OR_RETURN(std::unique_ptr<const Parts> parts, Parts::Parse(file));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(parts)));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& path) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  std::string json(error ? 0 : size, '\0');
  if (error || !file.read(json.data(), static_cast<std::streamsize>(json.size()))) {
    return absl::NotFoundError(absl::StrCat(path, ": expected a readable file, found none"));
  }
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Create(json);
  if (!tokenizer.ok()) {
    return absl::Status(tokenizer.status().code(),
                        absl::StrCat(path, ": ", std::string(tokenizer.status().message())));
  }
  return tokenizer;
}

absl::StatusOr<TokenizedText> Tokenizer::Encode(std::string_view text,
                                                bool add_special_tokens) const {
  RETURN_IF_ERROR(CheckText(text));
  ASSIGN_OR_RETURN(std::vector<Segment> segments, parts_->FindAddedTokens(text));
  std::vector<int32_t> ids;
  for (Segment& segment : segments) {
    RETURN_IF_ERROR(parts_->AppendIds(std::move(segment), ids));
  }
  PostProcessor::TypedIds processed = parts_->post_processor.Apply(ids, add_special_tokens);
  TokenizedText result{
      .ids = std::move(processed.ids), .tokens = {}, .type_ids = std::move(processed.type_ids)};
  for (const int32_t id : result.ids) {
    result.tokens.push_back(ShownBytes(*parts_->spelled_tokens[id]));
  }
  return result;
}

std::string_view Tokenizer::BytesOf(int32_t id) const {
  const bool is_known = id >= 0 && id < vocab_size() && parts_->spelled_tokens[id].has_value();
  return is_known ? std::string_view(*parts_->spelled_tokens[id]) : std::string_view();
}

int64_t Tokenizer::vocab_size() const { return std::ssize(parts_->spelled_tokens); }

}  // namespace attention
