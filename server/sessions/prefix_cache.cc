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

Prefix PrefixCache::Find(const PrefixOwner& owner, std::span<const int32_t> ids, int64_t most) {
  MutexLock lock(mutex_);
  RemoveTreesOfGoneModels();
  const auto tree = trees_.find(KeyOf(owner));
  if (tree == trees_.end()) {
    return {};
  }
  const PrefixTree::Match match =
      tree->second.tree.Find(ids.first(std::min<size_t>(ids.size(), std::max<int64_t>(most, 0))));
  Prefix prefix = tree->second.tree.Take(match);
  Touch(tree, match.node);
  return prefix;
}

void PrefixCache::Add(const PrefixOwner& owner, const ComputedTokens& tokens) {
  if (tokens.ids.empty() || BytesOfAll(tokens) > max_bytes_) {
    return;
  }
  MutexLock lock(mutex_);
  RemoveTreesOfGoneModels();
  const auto tree = trees_.try_emplace(KeyOf(owner), owner).first;
  try {
    Extend(tree, tokens);
    Count(tree->second);
  } catch (...) {
    RemoveTree(tree);
    throw;
  }
  if (tree->second.tree.num_nodes() == 0) {
    RemoveTree(tree);
  }
  while (shares_.used() > max_bytes_ && EvictOne(owner.account)) {
  }
}

void PrefixCache::Extend(Trees::iterator tree, const ComputedTokens& tokens) {
  PrefixTree& prefixes = tree->second.tree;
  PrefixTree::Match match = prefixes.Find(tokens.ids);
  if (match.length < tokens.known) {
    return;  // the known tokens were evicted while the others were computed
  }
  if (match.length < std::ssize(tokens.ids)) {
    if (match.length == match.node->end) {
      leaves_.erase(UseOf(match.node));  // it gets a child
    }
    match.node = prefixes.Add(match, tokens);
  }
  Touch(tree, match.node);
}

// Allocates for a new leaf only.
void PrefixCache::Touch(Trees::iterator tree, PrefixTree::Node* node) {
  ++uses_;
  auto leaf = leaves_.extract(UseOf(node));
  if (!leaf.empty()) {
    leaf.key().first = uses_;
    leaves_.insert(std::move(leaf));
  } else if (node->is_leaf()) {
    leaves_.emplace(Use(uses_, node), Leaf{tree, node});
  }
  for (PrefixTree::Node* used = node; used != nullptr; used = used->parent) {
    used->last_use = uses_;
  }
}

void PrefixCache::CountUse(int64_t tokens) {
  MutexLock lock(mutex_);
  ++(tokens > 0 ? counts_.hits : counts_.misses);
  counts_.cached_tokens += tokens;
}

bool PrefixCache::EvictFor(const std::string& account) {
  MutexLock lock(mutex_);
  RemoveTreesOfGoneModels();
  return EvictOne(account);
}

bool PrefixCache::EvictOne(const std::string& account) {
  const int64_t own = shares_.HeldBy(account);
  for (const auto& [_, leaf] : leaves_) {
    const std::string& other = leaf.tree->second.account;
    if (other == account || shares_.HeldBy(other) > own) {
      RemoveLeaf(leaf);
      ++counts_.evictions;
      return true;
    }
  }
  return false;
}

void PrefixCache::RemoveLeaf(const Leaf& removed) {
  const auto [tree, node] = removed;
  PrefixTree::Node* const parent = node->parent;
  auto leaf = leaves_.extract(UseOf(node));
  tree->second.tree.Remove(node);
  Count(tree->second);
  if (tree->second.tree.num_nodes() == 0) {
    trees_.erase(tree);
  } else if (parent->is_leaf()) {
    leaf.key() = UseOf(parent);
    leaf.mapped().node = parent;
    leaves_.insert(std::move(leaf));
  }
}

PrefixCache::Trees::iterator PrefixCache::RemoveTree(Trees::iterator tree) {
  std::erase_if(leaves_, [&](const auto& leaf) { return leaf.second.tree == tree; });
  shares_.Remove(tree->second.account, tree->second.counted);
  return trees_.erase(tree);
}

void PrefixCache::RemoveTreesOfGoneModels() {
  for (auto tree = trees_.begin(); tree != trees_.end();) {
    tree = tree->second.model.expired() ? RemoveTree(tree) : std::next(tree);
  }
}

void PrefixCache::Count(Owned& owned) {
  const int64_t bytes = owned.tree.size_bytes();
  shares_.Add(owned.account, bytes - owned.counted);
  owned.counted = bytes;
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
