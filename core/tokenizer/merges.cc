#include "core/tokenizer/merges.h"

#include <queue>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

using nlohmann::json;

uint64_t Key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

using Pair = std::pair<std::string, std::string>;

absl::Status BadMerge(const std::string& place, const std::string& expected, const json& found) {
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": expected ", expected, ", found ", Describe(&found)));
}

absl::StatusOr<Pair> ParsePair(const json& merge, const std::string& place) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return Pair(merge[0].get<std::string>(), merge[1].get<std::string>());
  }
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != text.npos && text.find(' ', space + 1) == text.npos) {
      return Pair(text.substr(0, space), text.substr(space + 1));
    }
  }
  return BadMerge(place, "two tokens, \"a b\" or [\"a\", \"b\"]", merge);
}

// The first line of a merges.txt, which some files took over.
bool IsVersion(const json& merge) {
  return merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version");
}

}  // namespace

// The tokens of a word while they are merged: a doubly linked list in a vector.
class Merges::Word {
 public:
  Word(const Merges& merges, const std::vector<int32_t>& ids) : merges_(merges) {
    const int64_t size = std::ssize(ids);
    for (int64_t i = 0; i < size; ++i) {
      symbols_.push_back({.id = ids[i], .previous = i - 1, .next = i + 1 < size ? i + 1 : kNone});
    }
    for (int64_t i = 0; i < size; ++i) {
      Propose(i);
    }
  }

  void MergeAll() {
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      Symbol& left = symbols_[best.place];
      if (left.is_gone || left.next == kNone) {
        continue;
      }
      // Either may have been merged with another since this was proposed.
      const Merge* merge = merges_.Find(left.id, symbols_[left.next].id);
      if (merge != nullptr && merge->id == best.id) {
        MergeWithNext(best.place, best.id);
      }
    }
  }

  std::vector<int32_t> ids() const {
    std::vector<int32_t> ids;
    for (const Symbol& symbol : symbols_) {
      if (!symbol.is_gone) {
        ids.push_back(symbol.id);
      }
    }
    return ids;
  }

 private:
  static constexpr int64_t kNone = -1;

  struct Symbol {
    int32_t id = 0;
    bool is_gone = false;
    int64_t previous = kNone;
    int64_t next = kNone;
  };
  struct Candidate {
    uint32_t rank = 0;
    int32_t id = 0;
    int64_t place = 0;  // of the left symbol

    bool operator<(const Candidate& other) const {  // the queue's top is its greatest
      return std::pair(rank, place) > std::pair(other.rank, other.place);
    }
  };

  void Propose(int64_t place) {
    if (place == kNone || symbols_[place].next == kNone) {
      return;
    }
    const Symbol& left = symbols_[place];
    if (const Merge* merge = merges_.Find(left.id, symbols_[left.next].id)) {
      candidates_.push({.rank = merge->rank, .id = merge->id, .place = place});
    }
  }

  void MergeWithNext(int64_t place, int32_t id) {
    Symbol& left = symbols_[place];
    Symbol& right = symbols_[left.next];
    left.id = id;
    left.next = right.next;
    right.is_gone = true;
    if (left.next != kNone) {
      symbols_[left.next].previous = place;
    }
    Propose(left.previous);
    Propose(place);
  }

  const Merges& merges_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> candidates_;
};

absl::StatusOr<Merges> Merges::Parse(const JsonObject& model, const Vocabulary& vocabulary,
                                     size_t prefix_bytes) {
  ASSIGN_OR_RETURN(const json* list, model.List("merges"));
  Merges merges;
  merges.merges_.reserve(list->size());
  for (size_t i = 0; i < list->size(); ++i) {
    const json& entry = (*list)[i];
    if (IsVersion(entry)) {
      continue;
    }
    const std::string place = absl::StrCat(model.PlaceOf("merges"), "[", i, "]");
    ASSIGN_OR_RETURN(const Pair pair, ParsePair(entry, place));
    const auto& [left, right] = pair;
    const std::optional<int32_t> left_id = vocabulary.Find(left);
    const std::optional<int32_t> right_id = vocabulary.Find(right);
    const std::optional<int32_t> merged_id =
        right.size() < prefix_bytes ? std::nullopt
                                    : vocabulary.Find(left + right.substr(prefix_bytes));
    if (!left_id.has_value() || !right_id.has_value() || !merged_id.has_value()) {
      return BadMerge(place, "tokens that the vocabulary has, alone and merged", entry);
    }
    merges.merges_.insert_or_assign(Key(*left_id, *right_id),
                                    Merge{.rank = static_cast<uint32_t>(i), .id = *merged_id});
  }
  return merges;
}

const Merges::Merge* Merges::Find(int32_t left, int32_t right) const {
  const auto found = merges_.find(Key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Merges::Apply(std::vector<int32_t>& ids) const {
  Word word(*this, ids);
  word.MergeAll();
  ids = word.ids();
}

}  // namespace attention
