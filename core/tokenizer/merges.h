// Byte-pair encoding's merges (Sennrich et al. 2016, https://arxiv.org/abs/1508.07909): of all
// pairs of neighbours, the one of the lowest rank is merged first, the leftmost of equals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/tokenizer/go_on.h"
#include "core/tokenizer/json_object.h"
#include "core/tokenizer/vocabulary.h"

namespace attention {

/// Thread-safe.
class Merges {
 public:
  /// The member "merges" of a model, in order of rank: "left right" or ["left", "right"].
  /// `prefix_bytes` at the front of a right token are left out of what the two become.
  /// INVALID_ARGUMENT names the merge and the token that the vocabulary lacks.
  static absl::StatusOr<Merges> Parse(const JsonObject& model, const Vocabulary& vocabulary,
                                      size_t prefix_bytes);

  /// Merges the tokens of a word as far as it goes, in O(n log n) time and at most 16 bytes of
  /// memory for each. CANCELLED, with `ids` in no known state, when `go_on` said so.
  absl::Status Apply(const GoOn& go_on, std::vector<int32_t>& ids) const;

 private:
  struct Merge {
    uint32_t rank = 0;
    int32_t id = 0;  // what the two become
  };
  class Word;

  const Merge* Find(int32_t left, int32_t right) const;

  absl::flat_hash_map<uint64_t, Merge> merges_;  // by left id and right id
};

}  // namespace attention
