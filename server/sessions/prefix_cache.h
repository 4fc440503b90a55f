// The tokens that sequences began with, kept for later sequences that begin alike.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/models/model.h"
#include "core/runtime/mutex.h"
#include "server/scheduling/tenant_shares.h"
#include "server/sessions/prefix_tree.h"

namespace attention {

/// Whose prefixes: nothing is shared between two owners, so that nobody learns from the time of an
/// answer what another has asked.
struct PrefixOwner {
  std::shared_ptr<const Model> model;
  KeyValueStorage storage = KeyValueStorage::kF32;
  std::string account = {};
  std::string tenant = {};
};

/// Counts since the start, except for bytes and prefixes.
struct PrefixStatistics {
  /// Sequences that took tokens from the cache, and that could have and found none.
  int64_t hits = 0;
  int64_t misses = 0;
  /// Tokens that were not computed.
  int64_t cached_tokens = 0;
  int64_t evictions = 0;
  int64_t prefixes = 0;
  int64_t bytes = 0;
  int64_t max_bytes = 0;
};

/// A tree of prefixes for each owner, within one budget. Thread-safe.
///
/// Beyond the budget the least recently used leaf goes: of the leaves of the account that adds and
/// of accounts that hold more. So no account can end the prefixes of accounts that hold less. The
/// prefixes of a model go when the model does, at the next use of the cache.
class PrefixCache {
 public:
  /// The tokens of a page of the caches that share prefixes: the fewest that a page can have.
  static constexpr int64_t kPageTokens = 512;

  /// A budget of 0: the cache is off and stays empty.
  explicit PrefixCache(int64_t max_bytes) : max_bytes_(max_bytes) {}

  bool is_on() const { return max_bytes_ > 0; }
  int64_t max_bytes() const { return max_bytes_; }
  /// The tokens of a page of caches that may share prefixes with others.
  int64_t page_tokens() const { return is_on() ? kPageTokens : kDefaultPageTokens; }

  /// Returns the longest prefix of the tokens, of at most `most`.
  Prefix Find(const PrefixOwner& owner, std::span<const int32_t> ids, int64_t most);
  /// Adds the tokens, unless their known prefix has gone or the budget cannot hold them.
  void Add(const PrefixOwner& owner, const ComputedTokens& tokens);
  /// Counts a sequence that takes so many tokens; 0: a miss.
  void CountUse(int64_t tokens);
  /// Makes room in the memory that caches share: evicts one prefix, for the account. Returns false
  /// when there is none.
  bool EvictFor(const std::string& account);

  PrefixStatistics statistics() const;

 private:
  struct Key {
    const Model* model = nullptr;
    KeyValueStorage storage = KeyValueStorage::kF32;
    std::string account;
    std::string tenant;
    auto operator<=>(const Key&) const = default;
  };
  struct Owned {
    explicit Owned(const PrefixOwner& owner)
        : model(owner.model), account(owner.account), tree(owner.model->info().d_model) {}
    /// Expired: the model is gone, and its address may be that of another.
    const std::weak_ptr<const Model> model;
    const std::string account;
    PrefixTree tree;
    /// The bytes of the tree that shares_ counts.
    int64_t counted = 0;
  };
  using Trees = std::map<Key, Owned>;
  using Use = std::pair<uint64_t, const PrefixTree::Node*>;
  struct Leaf {
    Trees::iterator tree;
    PrefixTree::Node* node = nullptr;
  };

  static Key KeyOf(const PrefixOwner& owner) {
    return {owner.model.get(), owner.storage, owner.account, owner.tenant};
  }
  static Use UseOf(const PrefixTree::Node* node) { return {node->last_use, node}; }
  void Extend(Trees::iterator tree, const ComputedTokens& tokens)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Notes a use of the node and of those before it.
  void Touch(Trees::iterator tree, PrefixTree::Node* node) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveLeaf(const Leaf& leaf) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Removes a tree with all its leaves. Returns the next tree.
  Trees::iterator RemoveTree(Trees::iterator tree) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveTreesOfGoneModels() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool EvictOne(const std::string& account) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Counts what has changed in the tree.
  void Count(Owned& owned) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t max_bytes_;
  mutable Mutex mutex_;
  Trees trees_ ABSL_GUARDED_BY(mutex_);
  /// All leaves, the least recently used first.
  std::map<Use, Leaf> leaves_ ABSL_GUARDED_BY(mutex_);
  /// The bytes of all trees, by account.
  TenantShares shares_ ABSL_GUARDED_BY(mutex_){max_bytes_};
  uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
  PrefixStatistics counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
