// A radix tree of computed tokens, which stores common prefixes of sequences once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/attention/kv_cache.h"
#include "server/sessions/cache_pages.h"

namespace attention {

/// Rows of hidden states: `rows` rows of f32 [.., d_model], from row `first` on.
struct HiddenRows {
  std::shared_ptr<const std::vector<float>> states;
  int64_t first = 0;
  int64_t rows = 0;
};

/// Rows in order, in chunks that several nodes of a tree may share.
using HiddenChunks = std::vector<HiddenRows>;

/// Copies rows [.., d_model] into chunks.
HiddenChunks MakeChunks(std::span<const float> rows, int64_t d_model);

/// The first tokens of a sequence, as they were computed. Empty: none.
struct Prefix {
  int64_t length = 0;
  /// One cache for each layer, of `length` tokens. Their pages are copied before they are written.
  std::vector<KvCache> caches;
  /// The hidden states of the tokens after the last norm, in order.
  HiddenChunks hidden;
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
    int64_t end = 0;              // the number of tokens from the root on
    std::vector<KvCache> caches;  // never appended to
    HiddenChunks hidden;          // of `ids`
    uint64_t last_use = 0;
    int64_t holds = 0;  // PrefixHolds, for which it stays in the tree

    bool is_leaf() const { return children.empty(); }
    int64_t begin() const { return end - static_cast<int64_t>(ids.size()); }
  };
  /// Nodes and pages that have left a tree. Destroying them is slow, since it frees memory.
  struct Removed {
    std::multimap<int32_t, std::unique_ptr<Node>> nodes;
    std::vector<std::shared_ptr<const void>> pages;
  };

  /// The longest prefix of some tokens that the tree has: `length` tokens that end within `node`.
  struct Match {
    Node* node = nullptr;
    int64_t length = 0;
  };

  explicit PrefixTree(int64_t d_model) : d_model_(d_model) {}
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  /// Returns the longest prefix; without tokens, the root.
  Match Find(std::span<const int32_t> ids);
  /// Returns the tokens of a match.
  Prefix Take(const Match& match) const;
  /// Adds the tokens after `match`, which is the result of Find(tokens.ids); `chunks` hold the
  /// hidden states of tokens.hidden. Returns the new leaf. REQUIRES: known <= match.length < ids.
  /// If it throws std::bad_alloc, the tree has the same tokens as before.
  Node* Add(const Match& match, const ComputedTokens& tokens, const HiddenChunks& chunks,
            Removed& removed);
  /// Removes a leaf; the nodes before it share the last page of another then. Does not throw.
  /// REQUIRES: it is not the root.
  void Remove(Node* leaf, Removed& removed);
  /// Returns whether the leaf is held, or caches outside of the tree use all pages of its tokens,
  /// so that its removal frees no memory, nor does that of the nodes before it.
  bool IsInUse(const Node& leaf) const;
  /// Returns the page of a node's last token. REQUIRES: it is not the root.
  static const void* LastPage(const Node& node) { return node.caches.front().PageOf(node.end - 1); }
  /// Returns how many nodes have the last page of the leaf, if all of them can give it up: by their
  /// removal, or, where they have other children, by that of the leaf. 0: they cannot, since one is
  /// held.
  int64_t NumSharingLastPage(const Node& leaf) const;
  /// Visits the pages of all tokens, except for those of held nodes and of nodes before them, until
  /// `visit` returns false; returns false then. The users of a page are caches outside of the tree.
  /// It may visit a page more than once.
  bool VisitPages(absl::FunctionRef<bool(const CachePage& page)> visit) const;

  /// Returns the size of the tree's pages and chunks, each counted once, and of its nodes, with
  /// their ids and the tables of their caches.
  int64_t size_bytes() const { return size_bytes_; }
  /// Returns the number of nodes besides the root.
  int64_t num_nodes() const { return num_nodes_; }

 private:
  /// The use of a page or a chunk in this tree.
  struct Use {
    int64_t nodes = 0;  // that have it
    int64_t bytes = 0;  // its size
  };

  /// Ancestors of the node that alone in the tree own their last page share the node's page
  /// instead, which has the same tokens and more. So each page of the tree belongs to a leaf, and
  /// is freed with the last such leaf. Adds a page for each layer to `removed`, for which it has
  /// room, unless null.
  void ShareLastPages(Node& node, Removed* removed);
  /// Divides the node at token `at`, counted from the root. Returns the new node before it.
  Node* Split(Node* node, int64_t at);
  /// Allocates the entries of uses_ that Count needs.
  void PrepareCount(const Node& node);
  /// Adds a node to uses_ and size_bytes_, and takes it out again.
  void Count(const Node& node);
  void Uncount(const Node& node);
  /// Takes `nodes` uses of a page or chunk out of the counts.
  void Drop(const void* memory, int64_t nodes);

  const int64_t d_model_;
  Node root_;
  std::unordered_map<const void*, Use> uses_;  // of each page and each chunk
  int64_t size_bytes_ = 0;
  int64_t num_nodes_ = 0;
};

}  // namespace attention
