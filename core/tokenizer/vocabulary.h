// The tokens of a model and their ids.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "core/runtime/json_object.h"
#include "core/tokenizer/trie.h"

namespace attention {

/// The longest token that is searched for with a trie. It bounds the steps per byte of a search.
inline constexpr size_t kMaxSearchedTokenBytes = 1024;

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

/// A vocabulary. Thread-safe.
class Vocabulary {
 public:
  using Tokens = std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>>;

  /// Reads the member "vocab" of a model, {token: id}. INVALID_ARGUMENT names the token.
  static absl::StatusOr<Vocabulary> Parse(const JsonObject& model);

  /// Reads the member "vocab" of a Unigram model, [[token, score], ...], whose ids count from 0. Of
  /// equal tokens the last is found. Sets the `scores`, by id. INVALID_ARGUMENT names the entry.
  static absl::StatusOr<Vocabulary> ParseScored(const JsonObject& model,
                                                std::vector<double>& scores);

  /// Returns the ids by token. INVALID_ARGUMENT, which names the member of `model`, when a token is
  /// longer than kMaxSearchedTokenBytes.
  absl::StatusOr<Trie> MakeTrie(const JsonObject& model) const;

  /// Returns the number of entries of the file, equal tokens included.
  int64_t size() const { return size_; }
  std::optional<int32_t> Find(std::string_view token) const;
  const Tokens& tokens() const { return tokens_; }
  /// Returns the entries, id and token, that are not found because an equal token follows.
  const std::vector<std::pair<int32_t, std::string>>& hidden() const { return hidden_; }

 private:
  Tokens tokens_;
  std::vector<std::pair<int32_t, std::string>> hidden_;
  int64_t size_ = 0;
};

}  // namespace attention
