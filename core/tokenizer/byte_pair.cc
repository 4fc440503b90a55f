// The BPE model: a word's characters, as tokens, and their merges.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/tokenizer/byte_tokens.h"
#include "core/tokenizer/merges.h"
#include "core/tokenizer/subword_model.h"
#include "core/tokenizer/unicode.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

class BytePairModel : public SubwordModel {
 public:
  static absl::StatusOr<std::unique_ptr<SubwordModel>> Parse(const JsonObject& json);

  absl::Status Tokenize(std::string_view word, const Yield& yield,
                        std::vector<int32_t>& ids) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  bool has_byte_tokens() const override { return bytes_.has_value(); }

 private:
  absl::Status ParseOptions(const JsonObject& json);
  absl::StatusOr<std::vector<int32_t>> Spell(std::string_view word) const;
  absl::Status AddUnknown(std::string_view symbol, std::optional<int32_t>& pending,
                          std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  Merges merges_;
  std::optional<std::string> unknown_token_;
  std::string prefix_;  // of all characters of a word but the first
  std::string suffix_;  // of the last character of a word
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
  std::optional<ByteTokens> bytes_;  // with byte_fallback
};

absl::Status BytePairModel::ParseOptions(const JsonObject& json) {
  if (json.Find("unk_token") != nullptr) {
    ASSIGN_OR_RETURN(unknown_token_, json.String("unk_token"));
  }
  ASSIGN_OR_RETURN(prefix_, json.StringOr("continuing_subword_prefix", ""));
  ASSIGN_OR_RETURN(suffix_, json.StringOr("end_of_word_suffix", ""));
  ASSIGN_OR_RETURN(fuse_unknown_, json.BoolOr("fuse_unk", false));
  ASSIGN_OR_RETURN(ignore_merges_, json.BoolOr("ignore_merges", false));
  const nlohmann::json* dropout = json.Find("dropout");
  if (dropout != nullptr && (!dropout->is_number() || dropout->get<double>() != 0)) {
    return json.Wrong("dropout", "null or 0, so that answers do not depend on chance");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SubwordModel>> BytePairModel::Parse(const JsonObject& json) {
  auto model = std::make_unique<BytePairModel>();
  RETURN_IF_ERROR(model->ParseOptions(json));
  ASSIGN_OR_RETURN(model->vocabulary_, Vocabulary::Parse(json));
  ASSIGN_OR_RETURN(model->merges_, Merges::Parse(json, model->vocabulary_, model->prefix_.size()));
  ASSIGN_OR_RETURN(const bool byte_fallback, json.BoolOr("byte_fallback", false));
  if (byte_fallback) {
    model->bytes_.emplace(model->vocabulary_);
  }
  return model;
}

// Adds the unknown token for a symbol. Without an unknown token the symbol is dropped.
absl::Status BytePairModel::AddUnknown(std::string_view symbol, std::optional<int32_t>& pending,
                                       std::vector<int32_t>& ids) const {
  if (!unknown_token_.has_value() || (pending.has_value() && fuse_unknown_)) {
    return absl::OkStatus();
  }
  if (pending.has_value()) {
    ids.push_back(*pending);
  }
  pending = vocabulary_.Find(*unknown_token_);
  if (!pending.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "text: expected characters in the vocabulary, since it has no unknown token \"",
        *unknown_token_, "\", found \"", std::string(symbol), "\""));
  }
  return absl::OkStatus();
}

// Returns the tokens of the characters of a word. As in the library, an unknown token is appended
// only before the next character that the vocabulary has: the bytes of characters in between come
// first.
absl::StatusOr<std::vector<int32_t>> BytePairModel::Spell(std::string_view word) const {
  std::vector<int32_t> ids;
  ids.reserve(word.size());
  std::optional<int32_t> pending_unknown;
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    NextCharacter(word, at);
    std::string symbol = begin == 0 ? "" : prefix_;
    symbol += word.substr(begin, at - begin);
    symbol += at == word.size() ? suffix_ : "";
    if (const std::optional<int32_t> id = vocabulary_.Find(symbol)) {
      if (pending_unknown.has_value()) {
        ids.push_back(*std::exchange(pending_unknown, std::nullopt));
      }
      ids.push_back(*id);
    } else if (!bytes_.has_value() || !bytes_->Append(symbol, ids)) {
      RETURN_IF_ERROR(AddUnknown(symbol, pending_unknown, ids));
    }
  }
  if (pending_unknown.has_value()) {
    ids.push_back(*pending_unknown);
  }
  return ids;
}

absl::Status BytePairModel::Tokenize(std::string_view word, const Yield& yield,
                                     std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    if (const std::optional<int32_t> id = vocabulary_.Find(word)) {
      ids.push_back(*id);
      return absl::OkStatus();
    }
  }
  ASSIGN_OR_RETURN(std::vector<int32_t> spelled, Spell(word));
  RETURN_IF_ERROR(merges_.Apply(yield, spelled));
  ids.insert(ids.end(), spelled.begin(), spelled.end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SubwordModel>> ParseBytePairModel(const JsonObject& model) {
  return BytePairModel::Parse(model);
}

}  // namespace attention
