#include "core/tokenizer/trie.h"

namespace attention {
namespace {

uint64_t Edge(Trie::Node from, char byte) { return 256 * from + static_cast<uint8_t>(byte); }

}  // namespace

void Trie::Add(std::string_view key, int32_t value) {
  Node node = kRoot;
  for (const char byte : key) {
    const auto next = static_cast<Node>(values_.size());
    values_.push_back(-1);  // before the edge, which may then fail
    node = children_.Add(Edge(node, byte), next);
    if (node != next) {
      values_.pop_back();
    }
  }
  values_[node] = value;
}

std::optional<Trie::Node> Trie::Step(Node from, char byte) const {
  const Node* const child = children_.Find(Edge(from, byte));
  return child == nullptr ? std::nullopt : std::optional<Node>(*child);
}

std::optional<Trie::Node> Trie::Find(std::string_view prefix) const {
  std::optional<Node> node = kRoot;
  for (size_t i = 0; node.has_value() && i < prefix.size(); ++i) {
    node = Step(*node, prefix[i]);
  }
  return node;
}

void Trie::FindAllFrom(Node from, std::string_view text,
                       absl::FunctionRef<void(const Match&)> found) const {
  std::optional<Node> node = from;
  for (size_t i = 0; i < text.size() && (node = Step(*node, text[i])).has_value(); ++i) {
    if (values_[*node] >= 0) {
      found(Match{.size_bytes = i + 1, .value = values_[*node]});
    }
  }
}

std::optional<Trie::Match> Trie::FindLongest(std::string_view text, Node from) const {
  std::optional<Match> longest;
  FindAllFrom(from, text, [&](const Match& match) { longest = match; });
  return longest;
}

}  // namespace attention
