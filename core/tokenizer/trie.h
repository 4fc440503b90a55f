// The longest of many strings that a text begins with, found in one walk along the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace attention {

/// Thread-safe once built.
class Trie {
 public:
  using Node = int64_t;
  static constexpr Node kRoot = 0;

  struct Match {
    size_t size_bytes = 0;
    int32_t value = 0;
  };

  /// The last value of equal keys stays. REQUIRES: value >= 0.
  void Add(std::string_view key, int32_t value);

  /// Where a walk along `prefix` leads; nullopt when no key begins so.
  std::optional<Node> Find(std::string_view prefix) const;

  /// The longest key that `text` begins with, of at least one byte. From a node other than the
  /// root: the rest of a key that begins as the node's does.
  std::optional<Match> FindLongest(std::string_view text, Node from = kRoot) const;

 private:
  std::optional<Node> Step(Node from, char byte) const;

  absl::flat_hash_map<int64_t, Node> children_;  // by 256 * node + byte
  std::vector<int32_t> values_ = {-1};           // per node; -1: no key ends here
};

}  // namespace attention
