// Finds the longest of many strings with which a text begins, in one pass over the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/tokenizer/integer_map.h"

namespace attention {

/// A trie of byte strings. Thread-safe after the last Add.
class Trie {
 public:
  using Node = int64_t;
  static constexpr Node kRoot = 0;

  struct Match {
    size_t size_bytes = 0;
    int32_t value = 0;
  };

  /// Adds a key. Of equal keys, the last value counts. REQUIRES: value >= 0.
  void Add(std::string_view key, int32_t value);

  /// Returns the node of `prefix`; nullopt when no key begins with it.
  std::optional<Node> Find(std::string_view prefix) const;

  /// Calls `found` for each key, of at least one byte, with which `text` begins: the shortest
  /// first.
  void FindAll(std::string_view text, absl::FunctionRef<void(const Match&)> found) const {
    FindAllFrom(kRoot, text, found);
  }

  /// Returns the longest key, of at least one byte, with which `text` begins. From a node other
  /// than the root it finds the rest of a key that begins with the node's prefix.
  std::optional<Match> FindLongest(std::string_view text, Node from = kRoot) const;

 private:
  void FindAllFrom(Node from, std::string_view text,
                   absl::FunctionRef<void(const Match&)> found) const;
  std::optional<Node> Step(Node from, char byte) const;

  IntegerMap<Node> children_;           // by 256 * node + byte
  std::vector<int32_t> values_ = {-1};  // per node; -1: no key ends here
};

}  // namespace attention
