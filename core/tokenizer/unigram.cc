// Unigram (Kudo 2018, https://arxiv.org/abs/1804.10959; as SentencePiece has it): of all ways to
// write a word as tokens, the one whose scores have the largest sum.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/tokenizer/byte_tokens.h"
#include "core/tokenizer/steps.h"
#include "core/tokenizer/subword_model.h"
#include "core/tokenizer/trie.h"
#include "core/tokenizer/unicode.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

/// How much less an unknown character scores than any token.
constexpr double kUnknownPenalty = 10;

class UnigramModel : public SubwordModel {
 public:
  static absl::StatusOr<std::unique_ptr<SubwordModel>> Parse(const JsonObject& object);

  absl::Status Tokenize(std::string_view word, const Yield& yield,
                        std::vector<int32_t>& ids) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  bool has_byte_tokens() const override { return bytes_.has_value(); }

 private:
  /// The last token of the best way to write the front of a word.
  struct BestEnd {
    double score = 0;  // of the whole way
    uint32_t begin = kNone;
    int32_t id = 0;

    bool IsBeatenBy(double other) const { return begin == kNone || other > score; }
  };
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  absl::Status FindBest(std::string_view word, const Yield& yield,
                        std::vector<BestEnd>& ends) const;
  void AppendUnknown(std::string_view text, std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;  // by id
  Trie trie_;
  std::optional<int32_t> unknown_;
  double unknown_score_ = std::numeric_limits<double>::infinity();
  std::optional<ByteTokens> bytes_;  // with byte_fallback
};

absl::StatusOr<std::unique_ptr<SubwordModel>> UnigramModel::Parse(const JsonObject& object) {
  auto model = std::make_unique<UnigramModel>();
  ASSIGN_OR_RETURN(model->vocabulary_, Vocabulary::ParseScored(object, model->scores_));
  ASSIGN_OR_RETURN(model->trie_, model->vocabulary_.MakeTrie(object));
  if (object.Find("unk_id") != nullptr) {
    ASSIGN_OR_RETURN(model->unknown_, ParseId(object, "unk_id"));
    if (*model->unknown_ >= std::ssize(model->scores_)) {
      return object.Wrong("unk_id",
                          absl::StrCat("an id of the ", model->scores_.size(), " tokens"));
    }
  }
  for (const double score : model->scores_) {
    model->unknown_score_ = std::min(model->unknown_score_, score);
  }
  model->unknown_score_ -= kUnknownPenalty;
  ASSIGN_OR_RETURN(const bool byte_fallback, object.BoolOr("byte_fallback", false));
  if (byte_fallback) {
    model->bytes_.emplace(model->vocabulary_);
  }
  return model;
}

// Fills `ends`, by the bytes of the word that a way covers.
absl::Status UnigramModel::FindBest(std::string_view word, const Yield& yield,
                                    std::vector<BestEnd>& ends) const {
  constexpr size_t kCharactersBetweenAsks = 65536;
  size_t characters = 0;
  ends.resize(word.size() + 1);
  for (size_t begin = 0, end = 0; begin < word.size(); begin = end) {
    if (++characters % kCharactersBetweenAsks == 0) {
      RETURN_IF_ERROR(CallYield(yield));
    }
    NextCharacter(word, end);
    const double score = ends[begin].score;
    bool is_known = false;  // whether the next character alone is a token
    const auto offer = [&](size_t size_bytes, double its_score, int32_t id) {
      if (BestEnd& best = ends[begin + size_bytes]; best.IsBeatenBy(its_score)) {
        best = {.score = its_score, .begin = static_cast<uint32_t>(begin), .id = id};
      }
    };
    trie_.FindAll(word.substr(begin), [&](const Trie::Match& match) {
      is_known = is_known || match.size_bytes == end - begin;
      offer(match.size_bytes, scores_[match.value] + score, match.value);
    });
    if (is_known) {
      continue;
    }
    if (!unknown_.has_value() && ends[end].IsBeatenBy(unknown_score_ + score)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "text: expected characters in the vocabulary, since it has no unknown token, found \"",
          std::string(word.substr(begin, end - begin)), "\""));
    }
    offer(end - begin, unknown_score_ + score, unknown_.value_or(0));
  }
  return absl::OkStatus();
}

// Appends the ids of consecutive unknown characters, which are one token.
void UnigramModel::AppendUnknown(std::string_view text, std::vector<int32_t>& ids) const {
  if (const std::optional<int32_t> id = vocabulary_.Find(text)) {
    ids.push_back(*id);
  } else if (!bytes_.has_value() || !bytes_->Append(text, ids)) {
    ids.push_back(*unknown_);
  }
}

absl::Status UnigramModel::Tokenize(std::string_view word, const Yield& yield,
                                    std::vector<int32_t>& ids) const {
  std::vector<BestEnd> ends;
  RETURN_IF_ERROR(FindBest(word, yield, ends));
  // Links each token of the best way to the next one: ends[begin].begin becomes the token's end.
  uint32_t next = kNone;
  for (auto at = static_cast<uint32_t>(word.size()); at > 0;) {
    const uint32_t begin = ends[at].begin;
    ends[at].begin = std::exchange(next, at);
    at = begin;
  }
  size_t unknown_begin = 0;
  size_t done = 0;
  for (; next != kNone; done = next, next = ends[next].begin) {
    if (unknown_.has_value() && ends[next].id == *unknown_) {
      continue;
    }
    if (unknown_begin < done) {
      AppendUnknown(word.substr(unknown_begin, done - unknown_begin), ids);
    }
    ids.push_back(ends[next].id);
    unknown_begin = next;
  }
  if (unknown_begin < done) {
    AppendUnknown(word.substr(unknown_begin, done - unknown_begin), ids);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SubwordModel>> ParseUnigramModel(const JsonObject& model) {
  return UnigramModel::Parse(model);
}

}  // namespace attention
