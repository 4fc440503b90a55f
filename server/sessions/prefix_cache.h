// The tokens that sequences began with, kept for later sequences that begin alike.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "core/models/model.h"
#include "core/runtime/mutex.h"
#include "server/scheduling/account_shares.h"
#include "server/sessions/prefix_tree.h"

namespace attention {

/// The owner of prefixes. Two owners share nothing, so that nobody learns from the time of an
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
  /// Tokens that were not computed, and the bytes of their keys and values.
  int64_t cached_tokens = 0;
  int64_t cached_bytes = 0;
  int64_t evictions = 0;
  int64_t prefixes = 0;
  int64_t bytes = 0;
  int64_t max_bytes = 0;
};

class PrefixCache;

/// The first tokens of a sequence that the cache has: they stay in it while this lives. It takes no
/// memory of caches. Movable. The cache and the model outlive it.
class PrefixHold {
 public:
  PrefixHold() = default;
  PrefixHold(PrefixHold&& other) noexcept;
  PrefixHold& operator=(PrefixHold&& other) noexcept;
  ~PrefixHold();

  int64_t length() const { return match_.length; }

 private:
  friend class PrefixCache;
  PrefixHold(PrefixCache& cache, const PrefixTree& tree, const PrefixTree::Match& match)
      : cache_(&cache), tree_(&tree), match_(match) {}

  PrefixCache* cache_ = nullptr;
  const PrefixTree* tree_ = nullptr;
  PrefixTree::Match match_;
};

/// A tree of prefixes for each owner, within one budget. Thread-safe.
///
/// When the budget is exceeded, the least recently used leaf is removed. Only leaves of the account
/// that adds, and of accounts that hold more, may be removed: no account can end the prefixes of
/// accounts that hold less. The prefixes of a model that is gone are not found any more. They are
/// removed when the next owner comes, or when others need their room.
class PrefixCache {
 public:
  /// The tokens of a page of the caches that share prefixes: the fewest that a page can have.
  static constexpr int64_t kPageTokens = 512;

  /// A budget of 0: the cache is off and stays empty. `wake` is called when there is something for
  /// DestroyRemoved to do, which another thread then calls; null: the cache itself does it.
  explicit PrefixCache(int64_t max_bytes, std::function<void()> wake = nullptr)
      : max_bytes_(max_bytes), wake_(std::move(wake)) {}

  bool is_on() const { return max_bytes_ > 0; }
  int64_t max_bytes() const { return max_bytes_; }
  /// Returns the tokens of a page of caches that may share prefixes with others.
  int64_t page_tokens() const { return is_on() ? kPageTokens : kDefaultPageTokens; }

  /// Holds the longest prefix of the tokens, of at most `most`.
  PrefixHold Hold(const PrefixOwner& owner, std::span<const int32_t> ids, int64_t most);
  /// Returns the tokens of a hold.
  Prefix Take(const PrefixHold& hold);
  /// Returns the longest prefix of the tokens, of at most `most`.
  Prefix Find(const PrefixOwner& owner, std::span<const int32_t> ids, int64_t most) {
    return Take(Hold(owner, ids, most));
  }
  /// Adds the tokens, unless their known prefix has gone, the budget cannot hold them, or a cache
  /// does not have as many tokens as there are ids: no later request may read beyond a page. When
  /// it throws std::bad_alloc, the cache has the same tokens as before.
  void Add(const PrefixOwner& owner, const ComputedTokens& tokens);
  /// Counts a sequence that takes so many tokens, and bytes of keys and values; 0: a miss.
  void CountUse(int64_t tokens, int64_t bytes);

  /// Makes room in the memory that caches share: removes one leaf that nobody uses, of the account
  /// or of accounts that have more of that memory by `bytes_of`. Returns false when there is none.
  bool EvictFor(const std::string& account,
                absl::FunctionRef<int64_t(const std::string&)> bytes_of);
  /// Returns how many prefixes share `page` as the page of their last token, if StopSharing can
  /// make them give it up; 0: there are none, or a request waits for one of them.
  int64_t NumSharing(const void* page) const;
  /// Removes these prefixes though somebody uses the page, who then need not copy it to write to
  /// it. Those with which others begin get the page of another instead. Returns false when there
  /// are none.
  bool StopSharing(const void* page);
  /// Gives back the memory of what has left the cache. When it returns, other threads have also
  /// given back what they had begun to.
  void DestroyRemoved();
  /// Removes the prefixes of models that are gone.
  void RemoveGone();
  /// Visits the pages of all prefixes that nobody waits for, with the account that they belong to,
  /// until `visit` returns false. The users of a page are caches outside of the prefixes. It may
  /// visit a page more than once.
  void VisitPages(
      absl::FunctionRef<bool(const std::string& account, const CachePage& page)> visit) const;

  PrefixStatistics statistics() const;

 private:
  friend class PrefixHold;
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
  /// The order of leaves: the least recently used first. No two leaves have one node.
  using UseOrder = std::pair<uint64_t, const PrefixTree::Node*>;
  struct Leaf {
    Trees::iterator tree;
    PrefixTree::Node* node = nullptr;
  };
  using Leaves = std::map<UseOrder, Leaf>;
  struct Removed {
    std::multimap<Key, Owned> trees;
    PrefixTree::Removed parts;
    bool is_empty() const { return trees.empty() && parts.nodes.empty() && parts.pages.empty(); }
  };

  static Key KeyOf(const PrefixOwner& owner) {
    return {owner.model.get(), owner.storage, owner.account, owner.tenant};
  }
  static UseOrder UseOf(const PrefixTree::Node* node) { return {node->last_use, node}; }
  void Extend(Trees::iterator tree, const ComputedTokens& tokens, const HiddenChunks& chunks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Notes a use of the node and of those before it. Does not throw.
  void Touch(PrefixTree::Node* node) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Removes the least recently used leaf that may go. Returns false when there is none. Does not
  /// throw.
  bool EvictFirst(absl::FunctionRef<bool(const Owned& owned, const PrefixTree::Node& leaf)> may_go)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Removes a leaf. Does not throw.
  void Evict(Leaves::const_iterator leaf) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Does what NumSharing does.
  int64_t CountSharing(const void* page) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Returns a leaf whose last token is in `page`, or leaves_.end().
  Leaves::const_iterator FindSharing(const void* page) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Takes the tree out of the map. REQUIRES: its leaves were removed.
  Trees::node_type Extract(Trees::iterator tree) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Removes a tree with all its leaves. Returns the next tree.
  Trees::iterator RemoveTree(Trees::iterator tree) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveTreesOfGoneModels() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Removes leaves of the account's, and of those who have more, until the budget has room.
  void KeepWithinBudget(const std::string& account) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Counts what has changed in the tree. Does not throw after shares_.Prepare.
  void Count(Owned& owned) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Lets DestroyRemoved be called, when there is something to do.
  void WakeIf(bool has_removed);

  const int64_t max_bytes_;
  const std::function<void()> wake_;
  /// Held by the thread that gives memory back: who finds none to give back must know that no other
  /// has it in hand.
  Mutex destroying_;
  mutable Mutex mutex_ ABSL_ACQUIRED_AFTER(destroying_);
  Trees trees_ ABSL_GUARDED_BY(mutex_);
  /// The number of trees of each model.
  std::map<std::weak_ptr<const Model>, int64_t, std::owner_less<>> models_ ABSL_GUARDED_BY(mutex_);
  /// All leaves.
  Leaves leaves_ ABSL_GUARDED_BY(mutex_);
  /// The bytes of all trees, by account.
  AccountShares shares_ ABSL_GUARDED_BY(mutex_){max_bytes_};
  uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
  PrefixStatistics counts_ ABSL_GUARDED_BY(mutex_);
  /// The entries that no request finds any more, and that still have their memory.
  Removed removed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
