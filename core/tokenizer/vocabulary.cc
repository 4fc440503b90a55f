#include "core/tokenizer/vocabulary.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/tokenizer/steps.h"
#include "nlohmann/json.hpp"

namespace attention {

absl::StatusOr<Vocabulary> Vocabulary::Parse(const JsonObject& model) {
  const nlohmann::json* entries = model.Find("vocab");
  if (entries == nullptr || !entries->is_object()) {
    return model.Wrong("vocab", "an object of tokens and ids");
  }
  Vocabulary vocabulary;
  vocabulary.tokens_.reserve(entries->size());
  for (const auto& [token, value] : entries->items()) {
    const absl::StatusOr<int32_t> id = ParseId(value, "");
    if (!id.ok()) {
      return ParseId(value, absl::StrCat(model.PlaceOf("vocab"), "[\"", token, "\"]")).status();
    }
    vocabulary.tokens_.emplace(token, *id);
  }
  vocabulary.size_ = std::ssize(vocabulary.tokens_);
  return vocabulary;
}

absl::StatusOr<Vocabulary> Vocabulary::ParseScored(const JsonObject& model,
                                                   std::vector<double>& scores) {
  const nlohmann::json* entries = model.Find("vocab");
  if (entries == nullptr || !entries->is_array() || std::ssize(*entries) > kMaxTokenIds) {
    return model.Wrong("vocab",
                       absl::StrCat("a list of at most ", kMaxTokenIds, " tokens and scores"));
  }
  Vocabulary vocabulary;
  vocabulary.tokens_.reserve(entries->size());
  scores.reserve(entries->size());
  for (const nlohmann::json& entry : *entries) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      return absl::InvalidArgumentError(absl::StrCat(model.PlaceOf("vocab"), "[", scores.size(),
                                                     "]: expected a token and its score, found ",
                                                     DescribeJson(&entry)));
    }
    const auto token = entry[0].get<std::string>();
    const auto id = static_cast<int32_t>(scores.size());
    if (const auto [entry_of_token, is_new] = vocabulary.tokens_.try_emplace(token, id); !is_new) {
      vocabulary.hidden_.emplace_back(std::exchange(entry_of_token->second, id), token);
    }
    scores.push_back(entry[1].get<double>());
  }
  vocabulary.size_ = std::ssize(scores);
  return vocabulary;
}

absl::StatusOr<Trie> Vocabulary::MakeTrie(const JsonObject& model) const {
  Trie trie;
  for (const auto& [token, id] : tokens_) {
    if (token.size() > kMaxSearchedTokenBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(model.PlaceOf("vocab"), ": expected tokens of at most ",
                       kMaxSearchedTokenBytes, " bytes, found one of ", token.size()));
    }
    trie.Add(token, id);
  }
  return trie;
}

std::optional<int32_t> Vocabulary::Find(std::string_view token) const {
  const auto found = tokens_.find(token);
  return found == tokens_.end() ? std::nullopt : std::optional<int32_t>(found->second);
}

}  // namespace attention
