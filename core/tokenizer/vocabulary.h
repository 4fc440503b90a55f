// The tokens of a model and their ids.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "core/runtime/json_object.h"

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

  std::optional<int32_t> Find(std::string_view token) const;
  const Tokens& tokens() const { return tokens_; }

 private:
  Tokens tokens_;
};

}  // namespace attention
