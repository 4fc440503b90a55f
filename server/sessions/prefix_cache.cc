#include "server/sessions/prefix_cache.h"

#include <algorithm>

namespace attention {
namespace {

int64_t BytesOfAll(const ComputedTokens& tokens) {
  size_t bytes = tokens.hidden.size_bytes();
  for (const KvCache& cache : tokens.caches) {
    bytes += KvCache::SizeBytes(cache.shape(), cache.length());
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace

PrefixHold::PrefixHold(PrefixHold&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      tree_(other.tree_),
      match_(std::exchange(other.match_, {})) {}

PrefixHold& PrefixHold::operator=(PrefixHold&& other) noexcept {
  std::swap(cache_, other.cache_);
  std::swap(tree_, other.tree_);
  std::swap(match_, other.match_);
  return *this;
}

PrefixHold::~PrefixHold() {
  if (cache_ != nullptr) {
    MutexLock lock(cache_->mutex_);
    --match_.node->holds;
  }
}

PrefixHold PrefixCache::Hold(const PrefixOwner& owner, std::span<const int32_t> ids, int64_t most) {
  MutexLock lock(mutex_);
  const auto tree = trees_.find(KeyOf(owner));
  if (tree == trees_.end() || tree->second.model.expired()) {
    return {};
  }
  const PrefixTree::Match match =
      tree->second.tree.Find(ids.first(std::min<size_t>(ids.size(), std::max<int64_t>(most, 0))));
  if (match.length == 0) {
    return {};
  }
  Touch(match.node);
  ++match.node->holds;
  return {*this, tree->second.tree, match};
}

Prefix PrefixCache::Take(const PrefixHold& hold) {
  if (hold.cache_ == nullptr) {
    return {};
  }
  MutexLock lock(mutex_);
  return hold.tree_->Take(hold.match_);
}

void PrefixCache::Add(const PrefixOwner& owner, const ComputedTokens& tokens) {
  const bool are_whole =
      std::all_of(tokens.caches.begin(), tokens.caches.end(),
                  [&](const KvCache& cache) { return cache.length() == std::ssize(tokens.ids); });
  if (tokens.ids.empty() || !are_whole || BytesOfAll(tokens) > max_bytes_) {
    return;
  }
  const HiddenChunks chunks = MakeChunks(tokens.hidden, owner.model->info().d_model);
  bool has_removed = false;
  {
    MutexLock lock(mutex_);
    const Key key = KeyOf(owner);
    const auto known = trees_.find(key);
    if (known == trees_.end() || known->second.model.expired()) {
      RemoveTreesOfGoneModels();
    }
    const auto [tree, is_new] = trees_.try_emplace(key, owner);
    try {
      if (is_new) {
        ++models_[tree->second.model];
      }
      Extend(tree, tokens, chunks);
    } catch (...) {
      if (tree->second.tree.num_nodes() == 0) {
        Extract(tree);
      }
      throw;
    }
    if (tree->second.tree.num_nodes() == 0) {
      Extract(tree);
    }
    KeepWithinBudget(owner.account);
    has_removed = !removed_.is_empty();
  }
  WakeIf(has_removed);
}

// Allocates before it changes anything.
void PrefixCache::Extend(Trees::iterator tree, const ComputedTokens& tokens,
                         const HiddenChunks& chunks) {
  PrefixTree& prefixes = tree->second.tree;
  const PrefixTree::Match match = prefixes.Find(tokens.ids);
  if (match.length < tokens.known) {
    return;  // the known tokens were evicted while the others were computed
  }
  if (match.length == std::ssize(tokens.ids)) {
    Touch(match.node);
    return;
  }
  shares_.Prepare(tree->second.account);
  Leaves added;
  added.emplace(UseOrder(), Leaf{.tree = tree, .node = nullptr});
  PrefixTree::Node* const leaf = prefixes.Add(match, tokens, chunks, removed_.parts);
  if (!match.node->is_leaf()) {  // it may have been one
    leaves_.erase(UseOf(match.node));
  }
  Count(tree->second);
  auto entry = added.extract(added.begin());
  entry.mapped().node = leaf;
  leaf->last_use = uses_;
  entry.key() = UseOf(leaf);
  leaves_.insert(std::move(entry));
  Touch(leaf);
}

void PrefixCache::Touch(PrefixTree::Node* node) {
  ++uses_;
  auto leaf = leaves_.extract(UseOf(node));
  for (PrefixTree::Node* used = node; used != nullptr; used = used->parent) {
    used->last_use = uses_;
  }
  if (!leaf.empty()) {
    leaf.key() = UseOf(node);
    leaves_.insert(std::move(leaf));
  }
}

void PrefixCache::CountUse(int64_t tokens, int64_t bytes) {
  MutexLock lock(mutex_);
  ++(tokens > 0 ? counts_.hits : counts_.misses);
  counts_.cached_tokens += tokens;
  counts_.cached_bytes += bytes;
}

bool PrefixCache::EvictFor(const std::string& account,
                           absl::FunctionRef<int64_t(const std::string&)> bytes_of) {
  MutexLock destroying(destroying_);
  Removed removed;  // destroyed without the lock
  MutexLock lock(mutex_);
  RemoveTreesOfGoneModels();
  if (removed_.is_empty()) {
    const int64_t own = bytes_of(account);
    EvictFirst([&](const Owned& owned, const PrefixTree::Node& leaf) {
      return (owned.account == account || bytes_of(owned.account) > own) &&
             !owned.tree.IsInUse(leaf);
    });
  }
  removed = std::exchange(removed_, {});
  return !removed.is_empty();
}

void PrefixCache::KeepWithinBudget(const std::string& account) {
  const auto may_go = [&](const Owned& owned,
                          const PrefixTree::Node& leaf) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return leaf.holds == 0 &&
           (owned.account == account || shares_.HeldBy(owned.account) > shares_.HeldBy(account));
  };
  while (shares_.used() > max_bytes_ && EvictFirst(may_go)) {
  }
}

bool PrefixCache::EvictFirst(
    absl::FunctionRef<bool(const Owned& owned, const PrefixTree::Node& leaf)> may_go) {
  const auto first = std::find_if(leaves_.begin(), leaves_.end(), [&](const auto& leaf) {
    return may_go(leaf.second.tree->second, *leaf.second.node);
  });
  if (first == leaves_.end()) {
    return false;
  }
  Evict(first);
  return true;
}

void PrefixCache::Evict(Leaves::const_iterator leaf) {
  ++counts_.evictions;
  const auto [tree, node] = leaf->second;
  auto entry = leaves_.extract(leaf);
  PrefixTree::Node* const parent = node->parent;
  tree->second.tree.Remove(node, removed_.parts);
  Count(tree->second);
  if (tree->second.tree.num_nodes() == 0) {
    RemoveTree(tree);
  } else if (parent->is_leaf()) {
    entry.key() = UseOf(parent);
    entry.mapped().node = parent;
    leaves_.insert(std::move(entry));
  }
}

PrefixCache::Leaves::const_iterator PrefixCache::FindSharing(const void* page) const {
  return std::ranges::find_if(leaves_, [page](const auto& leaf) {
    return PrefixTree::LastPage(*leaf.second.node) == page;
  });
}

int64_t PrefixCache::CountSharing(const void* page) const {
  const auto leaf = FindSharing(page);
  return leaf == leaves_.end()
             ? 0
             : leaf->second.tree->second.tree.NumSharingLastPage(*leaf->second.node);
}

int64_t PrefixCache::NumSharing(const void* page) const {
  MutexLock lock(mutex_);
  return CountSharing(page);
}

bool PrefixCache::StopSharing(const void* page) {
  MutexLock destroying(destroying_);
  Removed removed;  // destroyed without the lock
  MutexLock lock(mutex_);
  if (CountSharing(page) == 0) {
    return false;
  }
  for (auto leaf = FindSharing(page); leaf != leaves_.end(); leaf = FindSharing(page)) {
    Evict(leaf);
  }
  removed = std::exchange(removed_, {});
  return true;
}

PrefixCache::Trees::node_type PrefixCache::Extract(Trees::iterator tree) {
  const auto model = models_.find(tree->second.model);
  if (model != models_.end() && --model->second == 0) {
    models_.erase(model);
  }
  return trees_.extract(tree);
}

PrefixCache::Trees::iterator PrefixCache::RemoveTree(Trees::iterator tree) {
  if (tree->second.tree.num_nodes() > 0) {
    std::erase_if(leaves_, [&](const auto& leaf) { return leaf.second.tree == tree; });
  }
  shares_.Remove(tree->second.account, tree->second.counted);
  const auto next = std::next(tree);
  removed_.trees.insert(Extract(tree));
  return next;
}

// No request holds a part of these trees: a holder keeps the model alive. Models are few, and trees
// as many as callers make.
void PrefixCache::RemoveTreesOfGoneModels() {
  if (std::ranges::none_of(models_, [](const auto& model) { return model.first.expired(); })) {
    return;
  }
  for (auto tree = trees_.begin(); tree != trees_.end();) {
    tree = tree->second.model.expired() ? RemoveTree(tree) : std::next(tree);
  }
}

void PrefixCache::Count(Owned& owned) {
  const int64_t bytes = owned.tree.size_bytes();
  shares_.Add(owned.account, bytes - owned.counted);
  owned.counted = bytes;
}

void PrefixCache::WakeIf(bool has_removed) {
  if (has_removed && wake_) {
    wake_();
  } else if (has_removed) {
    DestroyRemoved();
  }
}

void PrefixCache::DestroyRemoved() {
  MutexLock destroying(destroying_);
  Removed removed;  // destroyed without the lock
  MutexLock lock(mutex_);
  removed = std::exchange(removed_, {});
}

void PrefixCache::RemoveGone() {
  MutexLock lock(mutex_);
  RemoveTreesOfGoneModels();
}

void PrefixCache::VisitPages(
    absl::FunctionRef<bool(const std::string& account, const CachePage& page)> visit) const {
  MutexLock lock(mutex_);
  for (const auto& [_, owned] : trees_) {
    if (!owned.tree.VisitPages([&](const CachePage& page) { return visit(owned.account, page); })) {
      return;
    }
  }
}

PrefixStatistics PrefixCache::statistics() const {
  MutexLock lock(mutex_);
  PrefixStatistics now = counts_;
  now.bytes = shares_.used();
  now.max_bytes = max_bytes_;
  for (const auto& [_, owned] : trees_) {
    now.prefixes += owned.tree.num_nodes();
  }
  return now;
}

}  // namespace attention
