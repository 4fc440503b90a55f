#include "server/sessions/prefix_tree.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

namespace attention {
namespace {

using States = std::vector<float>;

// The rows of a chunk. A node that is divided within a chunk keeps it whole.
constexpr int64_t kChunkRows = 512;

/// Returns caches of the first `length` tokens, which share the pages.
std::vector<KvCache> ForkAll(const std::vector<KvCache>& caches, int64_t length) {
  std::vector<KvCache> forks;
  forks.reserve(caches.size());
  for (const KvCache& cache : caches) {
    forks.push_back(cache.ForkFirst(length));
  }
  return forks;
}

/// Appends rows [begin, end) of the chunks.
void AppendRows(const HiddenChunks& chunks, int64_t begin, int64_t end, HiddenChunks& to) {
  int64_t row = 0;
  for (const HiddenRows& chunk : chunks) {
    const int64_t first = std::max(begin, row);
    const int64_t last = std::min(end, row + chunk.rows);
    if (first < last) {
      to.push_back({chunk.states, chunk.first + first - row, last - first});
    }
    row += chunk.rows;
  }
}

int64_t BytesOf(const HiddenRows& chunk) {
  return static_cast<int64_t>(chunk.states->size() * sizeof(float));
}

int64_t IdBytes(const PrefixTree::Node& node) {
  return static_cast<int64_t>(node.ids.size() * sizeof(int32_t));
}

/// Returns the size of what no other node shares: the ids, and the tables of the caches.
int64_t OwnBytes(const PrefixTree::Node& node) {
  int64_t bytes = static_cast<int64_t>(sizeof(node)) + IdBytes(node);
  for (const KvCache& cache : node.caches) {
    bytes += static_cast<int64_t>(cache.table_bytes());
  }
  return bytes;
}

/// Visits the memory that several nodes may share.
template <typename Visit>
void VisitMemory(const PrefixTree::Node& node, Visit visit) {
  for (const KvCache& cache : node.caches) {
    cache.VisitPages([&](const void* page, size_t size_bytes) {
      visit(page, static_cast<int64_t>(size_bytes));
    });
  }
  for (const HiddenRows& chunk : node.hidden) {
    visit(chunk.states.get(), BytesOf(chunk));
  }
}

}  // namespace

HiddenChunks MakeChunks(std::span<const float> rows, int64_t d_model) {
  HiddenChunks chunks;
  const int64_t count = std::ssize(rows) / d_model;
  for (int64_t row = 0; row < count; row += kChunkRows) {
    const int64_t some = std::min(kChunkRows, count - row);
    const auto first = rows.begin() + row * d_model;
    chunks.push_back({std::make_shared<const States>(first, first + some * d_model), 0, some});
  }
  return chunks;
}

// Takes the nodes apart one by one: a tree may be deeper than a stack.
PrefixTree::~PrefixTree() {
  std::multimap<int32_t, std::unique_ptr<Node>> nodes;
  nodes.merge(root_.children);
  while (!nodes.empty()) {
    const auto node = nodes.extract(nodes.begin());
    nodes.merge(node.mapped()->children);
  }
}

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
  std::vector<const Node*> path;
  for (const Node* node = match.node; node != &root_; node = node->parent) {
    path.push_back(node);
  }
  std::reverse(path.begin(), path.end());
  for (const Node* node : path) {
    AppendRows(node->hidden, 0, match.length - node->begin(), prefix.hidden);
  }
  return prefix;
}

PrefixTree::Node* PrefixTree::Add(const Match& match, const ComputedTokens& tokens,
                                  const HiddenChunks& chunks, Removed& removed) {
  const int64_t length = std::ssize(tokens.ids);
  removed.pages.reserve(removed.pages.size() + tokens.caches.size());
  Node* const parent =
      match.length < match.node->end ? Split(match.node, match.length) : match.node;
  auto leaf = std::make_unique<Node>();
  leaf->parent = parent;
  leaf->ids.assign(tokens.ids.begin() + match.length, tokens.ids.end());
  leaf->end = length;
  leaf->caches.reserve(tokens.caches.size());
  for (KvCache& cache : tokens.caches) {
    leaf->caches.push_back(cache.Fork());
  }
  for (size_t layer = 0; match.length > 0 && layer < leaf->caches.size(); ++layer) {
    leaf->caches[layer].SharePages(parent->caches[layer], match.length);
  }
  AppendRows(chunks, match.length - tokens.known, length - tokens.known, leaf->hidden);
  if (HiddenRows& first = leaf->hidden.front(); first.first > 0) {  // others had computed them
    const auto rows = std::span(*first.states).subspan(first.first * d_model_);
    first = MakeChunks(rows.first(first.rows * d_model_), d_model_).front();
  }
  PrepareCount(*leaf);
  auto& child = parent->children.emplace(leaf->ids.front(), nullptr).first->second;
  Count(*leaf);
  ++num_nodes_;
  child = std::move(leaf);
  ShareLastPages(*child, &removed);
  return child.get();
}

void PrefixTree::ShareLastPages(Node& descendant, Removed* removed) {
  Node* const parent = descendant.parent;
  const int64_t last = parent->end - 1;
  if (parent == &root_ || parent->end % parent->caches.front().shape().page_tokens == 0) {
    return;
  }
  const void* const page = LastPage(*parent);
  const auto has_page = [&](const Node* node) { return node != &root_ && LastPage(*node) == page; };
  int64_t count = 0;
  for (const Node* node = parent; has_page(node); node = node->parent) {
    ++count;
  }
  if (uses_.find(page)->second.nodes != count) {
    return;
  }
  for (size_t layer = 0; layer < descendant.caches.size(); ++layer) {
    KvCache& cache = descendant.caches[layer];
    std::shared_ptr<const void> old;
    Node* node = parent;
    for (int64_t i = 0; i < count; ++i, node = node->parent) {
      old = node->caches[layer].ShareLastPage(cache);
    }
    uses_.find(cache.PageOf(last))->second.nodes += count;
    Drop(old.get(), count);
    if (removed != nullptr) {
      removed->pages.push_back(std::move(old));
    }
  }
}

// Allocates before it changes anything.
PrefixTree::Node* PrefixTree::Split(Node* node, int64_t at) {
  const int64_t first_ids = at - node->begin();
  auto before = std::make_unique<Node>();
  before->parent = node->parent;
  before->ids.assign(node->ids.begin(), node->ids.begin() + first_ids);
  before->end = at;
  before->caches = ForkAll(node->caches, at);
  AppendRows(node->hidden, 0, first_ids, before->hidden);
  HiddenChunks rest;
  AppendRows(node->hidden, first_ids, std::ssize(node->ids), rest);
  before->last_use = node->last_use;
  before->children.emplace(node->ids[first_ids], nullptr);

  Count(*before);
  for (size_t i = 0; i < node->hidden.size() - rest.size(); ++i) {
    Drop(node->hidden[i].states.get(), 1);  // only the new node holds this chunk from here on
  }
  node->hidden = std::move(rest);
  size_bytes_ -= IdBytes(*before);  // counted as the node's before, and again by Count(*before)
  auto& child = node->parent->children.find(node->ids.front())->second;
  Node* const added = before.get();
  added->children.begin()->second = std::move(child);
  child = std::move(before);
  node->parent = added;
  node->ids.erase(node->ids.begin(), node->ids.begin() + first_ids);
  ++num_nodes_;
  return added;
}

void PrefixTree::Remove(Node* leaf, Removed& removed) {
  Uncount(*leaf);
  --num_nodes_;
  auto& children = leaf->parent->children;
  removed.nodes.insert(children.extract(children.find(leaf->ids.front())));
  if (!children.empty()) {
    ShareLastPages(*children.begin()->second, nullptr);  // the leaf has the old ones, too
  }
}

// Looks at one layer, since all are shared alike.
bool PrefixTree::IsInUse(const Node& leaf) const {
  const KvCache& cache = leaf.caches.front();
  bool is_in_use = true;
  for (int64_t token = leaf.begin(); token < leaf.end; token = NextPage(cache, token)) {
    is_in_use &= cache.NumSharing(token) > uses_.find(cache.PageOf(token))->second.nodes;
  }
  return is_in_use || leaf.holds > 0;
}

int64_t PrefixTree::NumSharingLastPage(const Node& leaf) const {
  const void* const page = LastPage(leaf);
  int64_t count = 0;
  bool stays = false;
  for (const Node* node = &leaf; node != &root_ && LastPage(*node) == page; node = node->parent) {
    stays |= node->children.size() > 1;
    if (!stays && node->holds > 0) {
      return 0;
    }
    ++count;
  }
  return count == uses_.find(page)->second.nodes ? count : 0;
}

bool PrefixTree::VisitPages(absl::FunctionRef<bool(const CachePage& page)> visit) const {
  std::vector<const Node*> nodes = {&root_};  // parents before their children
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const auto& [_, child] : nodes[i]->children) {
      nodes.push_back(child.get());
    }
  }
  std::unordered_set<const Node*> stays;  // what is held, and what is above it
  while (!nodes.empty()) {
    const Node* const node = nodes.back();
    nodes.pop_back();
    if (node->holds > 0 || stays.contains(node)) {
      stays.insert(node->parent);
      continue;
    }
    for (int64_t token = node->begin(); token < node->end;
         token = NextPage(node->caches.front(), token)) {
      CachePage page = CachePageOf(node->caches, token);
      page.num_users -= uses_.find(page.page)->second.nodes;
      if (!visit(page)) {
        return false;
      }
    }
  }
  return true;
}

void PrefixTree::PrepareCount(const Node& node) {
  VisitMemory(node, [&](const void* memory, int64_t bytes) {
    uses_.try_emplace(memory, Use{.nodes = 0, .bytes = bytes});
  });
}

void PrefixTree::Count(const Node& node) {
  VisitMemory(node, [&](const void* memory, int64_t bytes) {
    Use& use = uses_.find(memory)->second;
    use.bytes = bytes;
    size_bytes_ += use.nodes++ == 0 ? bytes : 0;
  });
  size_bytes_ += OwnBytes(node);
}

void PrefixTree::Uncount(const Node& node) {
  VisitMemory(node, [&](const void* memory, int64_t) { Drop(memory, 1); });
  size_bytes_ -= OwnBytes(node);
}

void PrefixTree::Drop(const void* memory, int64_t nodes) {
  const auto found = uses_.find(memory);
  found->second.nodes -= nodes;
  if (found->second.nodes == 0) {
    size_bytes_ -= found->second.bytes;
    uses_.erase(found);
  }
}

}  // namespace attention
