// The merges of byte-pair encoding (Sennrich et al. 2016, https://arxiv.org/abs/1508.07909). Of all
// pairs of neighbours, the pair of the lowest rank is merged first; of equal pairs, the leftmost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/runtime/json_object.h"
#include "core/runtime/yield.h"
#include "core/tokenizer/integer_map.h"
#include "core/tokenizer/vocabulary.h"

namespace attention {

/// The merges of one model. Thread-safe.
class Merges {
 public:
  /// Reads the member "merges" of a model, in order of rank: "left right" or ["left", "right"]. The
  /// merged token leaves out the first `prefix_bytes` of the right token. INVALID_ARGUMENT names
  /// the merge and the token that the vocabulary lacks.
  static absl::StatusOr<Merges> Parse(const JsonObject& model, const Vocabulary& vocabulary,
                                      size_t prefix_bytes);

  /// Merges the tokens of a word until no pair can be merged, in O(n log n) time and at most 18
  /// bytes of memory for each token, its id included. CANCELLED, with `ids` in an undefined state,
  /// when `yield` returned false.
  absl::Status Apply(const Yield& yield, std::vector<int32_t>& ids) const;

 private:
  struct Merge {
    uint32_t rank = 0;
    int32_t id = 0;  // the merged token
  };
  class Word;

  const Merge* Find(int32_t left, int32_t right) const;

  IntegerMap<Merge> merges_;  // by left id and right id
};

}  // namespace attention
