#include "core/tokenizer/merges.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

using nlohmann::json;

uint64_t Key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

using Pair = std::pair<std::string, std::string>;

absl::Status BadMerge(const std::string& place, const std::string& expected, const json& found) {
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": expected ", expected, ", found ", DescribeJson(&found)));
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

// Whether this is the first line of a merges.txt, which some files have among their merges.
bool IsVersion(const json& merge) {
  return merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version");
}

}  // namespace

// The tokens of a word while they are merged. A merged token takes the positions of the tokens that
// it consists of. Its first and its last position hold the number of its positions, so that both
// neighbours are found.
class Merges::Word {
 public:
  Word(const Merges& merges, std::vector<int32_t>& ids)
      : merges_(merges),
        ids_(ids),
        lengths_(ids.size(), 1),
        max_candidates_(ids.size() + ids.size() / 4 + 1) {
    candidates_.reserve(ids.size());
    for (size_t position = 0; position < ids.size(); ++position) {
      Propose(position);
    }
  }

  absl::Status MergeAll(const Yield& yield) {
    constexpr int kMergesBetweenAsks = 1 << 16;
    for (int done = 1; !candidates_.empty(); ++done) {
      const Candidate best = candidates_.front();
      std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
      candidates_.pop_back();
      if (const Merge* merge = MergeOf(best)) {
        MergeWithNext(best.position, merge->id);
      }
      if (done % kMergesBetweenAsks == 0) {
        RETURN_IF_ERROR(CallYield(yield));
      }
    }
    std::erase(ids_, kGone);
    return absl::OkStatus();
  }

 private:
  static constexpr int32_t kGone = -1;

  struct Candidate {
    uint32_t rank = 0;
    uint32_t position = 0;  // of the left token

    auto operator<=>(const Candidate&) const = default;
  };

  size_t Next(size_t position) const { return position + lengths_[position]; }

  // Returns the merge of a candidate; null when one of its two tokens has been merged with another
  // one since the candidate was added.
  const Merge* MergeOf(const Candidate& candidate) const {
    const Merge* merge = MergeAt(candidate.position);
    return merge != nullptr && merge->rank == candidate.rank ? merge : nullptr;
  }

  const Merge* MergeAt(size_t position) const {
    const bool is_pair = ids_[position] != kGone && Next(position) < ids_.size();
    return is_pair ? merges_.Find(ids_[position], ids_[Next(position)]) : nullptr;
  }

  void Propose(size_t position) {
    if (const Merge* merge = MergeAt(position)) {
      if (candidates_.size() >= max_candidates_) {
        DropOutdated();
      }
      candidates_.push_back({.rank = merge->rank, .position = static_cast<uint32_t>(position)});
      std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    }
  }

  // Removes the candidates whose tokens have been merged with others.
  void DropOutdated() {
    std::erase_if(candidates_, [this](const Candidate& c) { return MergeOf(c) == nullptr; });
    std::make_heap(candidates_.begin(), candidates_.end(), std::greater<>());
  }

  void MergeWithNext(size_t position, int32_t id) {
    const size_t next = Next(position);
    const int32_t length = lengths_[position] + lengths_[next];
    ids_[position] = id;
    ids_[next] = kGone;
    lengths_[position] = lengths_[position + length - 1] = length;
    if (position > 0) {
      Propose(position - lengths_[position - 1]);
    }
    Propose(position);
  }

  const Merges& merges_;
  std::vector<int32_t>& ids_;
  std::vector<int32_t> lengths_;
  const size_t max_candidates_;
  std::vector<Candidate> candidates_;  // a heap whose top is the least
};

absl::StatusOr<Merges> Merges::Parse(const JsonObject& model, const Vocabulary& vocabulary,
                                     size_t prefix_bytes) {
  ASSIGN_OR_RETURN(const json* list, model.List("merges"));
  Merges merges;
  for (size_t i = 0; i < list->size(); ++i) {
    const json& entry = (*list)[i];
    if (IsVersion(entry)) {
      continue;
    }
    const std::string place = absl::StrCat(model.PlaceOf("merges"), "[", i, "]");
    ASSIGN_OR_RETURN(const Pair pair, ParsePair(entry, place));
    const auto& [left, right] = pair;
    if (right.size() < prefix_bytes) {
      return BadMerge(
          place, absl::StrCat("a second token with the prefix of ", prefix_bytes, " bytes"), entry);
    }
    const std::string merged = left + right.substr(prefix_bytes);
    const std::optional<int32_t> left_id = vocabulary.Find(left);
    const std::optional<int32_t> right_id = vocabulary.Find(right);
    const std::optional<int32_t> merged_id = vocabulary.Find(merged);
    if (!left_id.has_value() || !right_id.has_value() || !merged_id.has_value()) {
      const std::string& lacked = !left_id.has_value()    ? left
                                  : !right_id.has_value() ? right
                                                          : merged;
      return BadMerge(place, absl::StrCat("tokens of the vocabulary, which lacks \"", lacked, "\""),
                      entry);
    }
    const Merge merge = {.rank = static_cast<uint32_t>(i), .id = *merged_id};
    merges.merges_.Add(Key(*left_id, *right_id), merge) = merge;  // the last one counts
  }
  return merges;
}

const Merges::Merge* Merges::Find(int32_t left, int32_t right) const {
  return merges_.Find(Key(left, right));
}

absl::Status Merges::Apply(const Yield& yield, std::vector<int32_t>& ids) const {
  return Word(*this, ids).MergeAll(yield);
}

}  // namespace attention
