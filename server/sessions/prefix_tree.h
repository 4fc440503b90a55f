// A radix tree of computed tokens: those of sequences that begin alike are stored once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/attention/kv_cache.h"

namespace attention {

/// Rows of hidden states: the first `rows` rows of f32 [.., d_model].
struct HiddenRows {
  std::shared_ptr<const std::vector<float>> states;
  int64_t rows = 0;
};

/// The first tokens of a sequence, as they were computed. Empty: none.
struct Prefix {
  int64_t length = 0;
  /// One cache for each layer, of `length` tokens. Their pages are copied before they are written.
  std::vector<KvCache> caches;
  /// The hidden states of the tokens after the last norm, in order.
  std::vector<HiddenRows> hidden;
};

/// A whole sequence, as it was computed after a prefix that was known before.
struct ComputedTokens {
  std::span<const int32_t> ids;
  /// Caches of all tokens, whose pages the tree will share.
  std::span<KvCache> caches;
  int64_t known = 0;
  /// f32 [ids - known, d_model]: the hidden states of the tokens behind the known ones.
  std::span<const float> hidden;
};

/// The tree. Each node has the tokens between its parent and itself, their hidden states, and
/// caches of all tokens from the root on, whose full pages it shares with its parent. Not
/// thread-safe.
class PrefixTree {
 public:
  struct Node {
    Node* parent = nullptr;
    std::map<int32_t, std::unique_ptr<Node>> children;  // by their first token
    std::vector<int32_t> ids;
    int64_t end = 0;  // the number of tokens from the root on
    std::vector<KvCache> caches;
    std::shared_ptr<const std::vector<float>> hidden;  // f32 [ids, d_model]
    uint64_t last_use = 0;

    bool is_leaf() const { return children.empty(); }
    int64_t begin() const { return end - static_cast<int64_t>(ids.size()); }
  };

  /// The longest prefix of some tokens that the tree has: `length` tokens that end within `node`.
  struct Match {
    Node* node = nullptr;
    int64_t length = 0;
  };

  explicit PrefixTree(int64_t d_model) : d_model_(d_model) {}

  /// Returns the longest prefix; without tokens, the root.
  Match Find(std::span<const int32_t> ids);
  /// Returns the tokens of a match.
  Prefix Take(const Match& match) const;
  /// Adds the tokens behind `match`, which is that of their ids. Returns the new leaf. REQUIRES:
  /// known <= match.length < ids. When it throws std::bad_alloc, the tree can only be destroyed.
  Node* Add(const Match& match, const ComputedTokens& tokens);
  /// Removes a leaf. REQUIRES: it is not the root.
  void Remove(Node* leaf);

  Node& root() { return root_; }
  /// The size of the tree's pages, each counted once, of its hidden states and its ids.
  int64_t size_bytes() const { return size_bytes_; }
  /// The number of nodes besides the root.
  int64_t num_nodes() const { return num_nodes_; }

 private:
  /// Divides the node at token `at`, counted from the root. Returns the new node before it.
  Node* Split(Node* node, int64_t at);
  void Count(const Node& node);
  void Uncount(const Node& node);
  /// The size of its hidden states and its ids.
  static int64_t OwnBytes(const Node& node);

  const int64_t d_model_;
  Node root_;
  std::map<const void*, int64_t> pages_;  // how many nodes use each page
  int64_t size_bytes_ = 0;
  int64_t num_nodes_ = 0;
};

}  // namespace attention
