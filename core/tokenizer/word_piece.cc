// WordPiece (Schuster and Nakajima 2012; as BERT has it): the longest token first, from the left.
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/tokenizer/byte_level.h"
#include "core/tokenizer/subword_model.h"
#include "core/tokenizer/trie.h"
#include "core/tokenizer/unicode.h"

namespace attention {
namespace {

constexpr size_t kMaxShownWordBytes = 60;

class WordPieceModel : public SubwordModel {
 public:
  static absl::StatusOr<std::unique_ptr<SubwordModel>> Parse(const JsonObject& json);

  absl::Status Tokenize(std::string_view word, const Yield& yield,
                        std::vector<int32_t>& ids) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  bool has_byte_tokens() const override { return false; }

 private:
  bool AppendPieces(std::string_view word, std::vector<int32_t>& ids) const;
  bool IsTooLong(std::string_view word) const;

  Vocabulary vocabulary_;
  Trie trie_;
  std::optional<Trie::Node> continued_;  // behind the prefix of tokens that continue a word
  std::string unknown_token_;
  int64_t max_characters_ = 0;
};

absl::StatusOr<std::unique_ptr<SubwordModel>> WordPieceModel::Parse(const JsonObject& object) {
  auto model = std::make_unique<WordPieceModel>();
  ASSIGN_OR_RETURN(model->vocabulary_, Vocabulary::Parse(object));
  ASSIGN_OR_RETURN(model->unknown_token_, object.String("unk_token"));
  ASSIGN_OR_RETURN(const std::string prefix, object.String("continuing_subword_prefix"));
  ASSIGN_OR_RETURN(
      model->max_characters_,
      object.WholeNumber("max_input_chars_per_word", {0, std::numeric_limits<int64_t>::max()}));
  ASSIGN_OR_RETURN(model->trie_, model->vocabulary_.MakeTrie(object));
  model->continued_ = model->trie_.Find(prefix);
  return model;
}

bool WordPieceModel::IsTooLong(std::string_view word) const {
  int64_t characters = 0;
  for (size_t at = 0; at < word.size(); ++characters) {
    NextCharacter(word, at);
  }
  return characters > max_characters_;
}

// Appends the tokens of a word. Returns false, with some tokens appended, when the vocabulary
// cannot spell the word.
bool WordPieceModel::AppendPieces(std::string_view word, std::vector<int32_t>& ids) const {
  std::optional<Trie::Node> from = Trie::kRoot;
  while (!word.empty()) {
    const std::optional<Trie::Match> match =
        from.has_value() ? trie_.FindLongest(word, *from) : std::nullopt;
    if (!match.has_value()) {
      return false;
    }
    ids.push_back(match->value);
    word.remove_prefix(match->size_bytes);
    from = continued_;
  }
  return true;
}

absl::Status WordPieceModel::Tokenize(std::string_view word, const Yield&,
                                      std::vector<int32_t>& ids) const {
  const size_t size = ids.size();
  if (!IsTooLong(word) && AppendPieces(word, ids)) {
    return absl::OkStatus();
  }
  const std::optional<int32_t> unknown = vocabulary_.Find(unknown_token_);
  if (!unknown.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "text: expected words in the vocabulary, since it has no unknown token \"", unknown_token_,
        "\", found \"", ShownBytes(word.substr(0, kMaxShownWordBytes)), "\""));
  }
  ids.resize(size);
  ids.push_back(*unknown);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SubwordModel>> ParseWordPieceModel(const JsonObject& model) {
  return WordPieceModel::Parse(model);
}

}  // namespace attention
