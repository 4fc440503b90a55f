#include "server/sessions/prefix_tree.h"

#include <algorithm>
#include <utility>

namespace attention {
namespace {

using States = std::vector<float>;

/// Returns caches of the first `length` tokens, which share the pages.
std::vector<KvCache> ForkAll(std::span<KvCache> caches, int64_t length) {
  std::vector<KvCache> forks;
  forks.reserve(caches.size());
  for (KvCache& cache : caches) {
    forks.push_back(cache.Fork());
    forks.back().Truncate(length).IgnoreError();  // it has at least as many
  }
  return forks;
}

}  // namespace

PrefixTree::Match PrefixTree::Find(std::span<const int32_t> ids) {
  Match match{&root_, 0};
  while (match.length == match.node->end && match.length < std::ssize(ids)) {
    const auto child = match.node->children.find(ids[match.length]);
    if (child == match.node->children.end()) {
      break;
    }
    match.node = child->second.get();
    const std::span<const int32_t> rest = ids.subspan(match.length);
    const std::vector<int32_t>& own = match.node->ids;
    match.length +=
        std::mismatch(own.begin(), own.end(), rest.begin(), rest.end()).first - own.begin();
  }
  return match;
}

Prefix PrefixTree::Take(const Match& match) const {
  Prefix prefix{.length = match.length, .caches = {}, .hidden = {}};
  if (match.length == 0) {
    return prefix;
  }
  prefix.caches = ForkAll(match.node->caches, match.length);
  for (const Node* node = match.node; node != &root_; node = node->parent) {
    prefix.hidden.push_back({node->hidden, std::min(node->end, match.length) - node->begin()});
  }
  std::reverse(prefix.hidden.begin(), prefix.hidden.end());
  return prefix;
}

PrefixTree::Node* PrefixTree::Add(const Match& match, const ComputedTokens& tokens) {
  const int64_t length = std::ssize(tokens.ids);
  Node* const parent =
      match.length < match.node->end ? Split(match.node, match.length) : match.node;
  auto leaf = std::make_unique<Node>();
  leaf->parent = parent;
  leaf->ids.assign(tokens.ids.begin() + match.length, tokens.ids.end());
  leaf->end = length;
  leaf->caches = ForkAll(tokens.caches, length);
  for (size_t layer = 0; match.length > 0 && layer < leaf->caches.size(); ++layer) {
    leaf->caches[layer].SharePages(parent->caches[layer], match.length);
  }
  leaf->hidden = std::make_shared<const States>(
      tokens.hidden.begin() + (match.length - tokens.known) * d_model_, tokens.hidden.end());
  Node* const added = leaf.get();
  Count(*added);
  parent->children.emplace(added->ids.front(), std::move(leaf));
  ++num_nodes_;
  return added;
}

PrefixTree::Node* PrefixTree::Split(Node* node, int64_t at) {
  const int64_t first_ids = at - node->begin();
  const auto cut = node->hidden->begin() + first_ids * d_model_;
  auto before = std::make_unique<Node>();
  before->parent = node->parent;
  before->ids.assign(node->ids.begin(), node->ids.begin() + first_ids);
  before->end = at;
  before->caches = ForkAll(node->caches, at);
  before->hidden = std::make_shared<const States>(node->hidden->begin(), cut);
  before->last_use = node->last_use;
  auto rest = std::make_shared<const States>(cut, node->hidden->end());
  auto& place = node->parent->children.find(node->ids.front())->second;
  Node* const added = before.get();
  before->children.emplace(node->ids[first_ids], nullptr);
  Count(*added);
  size_bytes_ -= OwnBytes(*added);  // of the node's, which it now has
  added->children.begin()->second = std::move(place);
  place = std::move(before);
  node->parent = added;
  node->ids.erase(node->ids.begin(), node->ids.begin() + first_ids);
  node->hidden = std::move(rest);
  ++num_nodes_;
  return added;
}

void PrefixTree::Remove(Node* leaf) {
  Uncount(*leaf);
  --num_nodes_;
  leaf->parent->children.erase(leaf->parent->children.find(leaf->ids.front()));
}

int64_t PrefixTree::OwnBytes(const Node& node) {
  return static_cast<int64_t>(node.hidden->size() * sizeof(float) +
                              node.ids.size() * sizeof(int32_t));
}

void PrefixTree::Count(const Node& node) {
  for (const KvCache& cache : node.caches) {
    cache.VisitPages([&](const void* page, size_t size_bytes) {
      if (pages_[page]++ == 0) {
        size_bytes_ += static_cast<int64_t>(size_bytes);
      }
    });
  }
  size_bytes_ += OwnBytes(node);
}

void PrefixTree::Uncount(const Node& node) {
  for (const KvCache& cache : node.caches) {
    cache.VisitPages([&](const void* page, size_t size_bytes) {
      const auto found = pages_.find(page);
      if (--found->second == 0) {
        size_bytes_ -= static_cast<int64_t>(size_bytes);
        pages_.erase(found);
      }
    });
  }
  size_bytes_ -= OwnBytes(node);
}

}  // namespace attention
