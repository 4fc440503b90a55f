#include "tests/core/fuzz/fuzz_mates.h"

#include <utility>

#include "core/runtime/status_macros.h"

namespace attention {
AttentionOptions MateOptions(int64_t kind, int64_t dim) {
  switch (kind) {
    case 1:
      return {.causal = true, .similarity = Similarity::kLinear};
    case 2:
      return {.causal = true, .similarity = Similarity::kGaussian, .bandwidth = 3};
    case 3:
      return dim < 2 ? AttentionOptions{}
                     : AttentionOptions{.rotary = Rotary{.dim = 2, .base = 50, .magnitude = 3}};
    case 4:
      return {.window = 5, .prefix = 2, .softcap = 3};
    default:
      return {.causal = true};
  }
}

/// Rows of zeros, or of NaN.
AttentionSequence FuzzMates::MateOf(int64_t rows, int64_t keys) {
  const reference::Extents& e = problem_.extents();
  const auto dtype = static_cast<Dtype>(way_.dtype);
  const bool is_nan = way_.bad_mates != 0;
  AttentionSequence mate{
      .query = problem_.NewRows(dtype, {rows, e.num_heads, e.head_dim}, is_nan),
      .key = problem_.NewRows(dtype, {keys, e.num_kv_heads, e.head_dim}, is_nan),
      .value = problem_.NewRows(dtype, {keys, e.num_kv_heads, e.value_head_dim}, is_nan),
      .output = problem_.NewHeads(dtype, rows, e.num_heads, e.value_head_dim),
      .options = MateOptions(way_.mate_kind, way_.dim)};
  if (way_.mate_kind == 4) {
    mate.weights = reinterpret_cast<float*>(
        problem_.NewMemory(e.num_heads * rows * keys * static_cast<int64_t>(sizeof(float))));
  }
  return mate;
}

/// Makes one whose keys are in a cache of 8 bits.
absl::Status FuzzMates::MakeCachedMate() {
  const reference::Extents& e = problem_.extents();
  ASSIGN_OR_RETURN(KvCache cache, KvCache::Create({e.num_kv_heads, e.head_dim, e.value_head_dim,
                                                   KeyValueStorage::kInt8}));
  cache_.emplace(std::move(cache));
  AttentionSequence mate = MateOf(3, 70);
  RETURN_IF_ERROR(
      cache_->Append(mate.key, mate.value, {mate.options.key_norm, mate.options.rotary}));
  mate.key = mate.value = {};
  mate.cache = &*cache_;
  if (mate.options.similarity == Similarity::kLinear) {  // which has no caches
    mate.options = {};
  }
  behind_.push_back(mate);
  return absl::OkStatus();
}

absl::Status FuzzMates::Make() {
  if (way_.mates > 0) {
    before_.push_back(MateOf(70, 70));
  }
  if (way_.mates > 2) {
    before_.push_back(MateOf(0, 20));
    before_.push_back(MateOf(20, 0));
  }
  if (way_.mates > 1) {
    behind_.push_back(MateOf(9, 9));
  }
  if (way_.mates > 2) {
    behind_.push_back(MateOf(0, 0));
  }
  return way_.mates > 3 ? MakeCachedMate() : absl::OkStatus();
}

std::vector<AttentionSequence> FuzzMates::BatchWith(const AttentionSequence& sequence) const {
  std::vector<AttentionSequence> batch = before_;
  batch.push_back(sequence);
  batch.insert(batch.end(), behind_.begin(), behind_.end());
  return batch;
}

}  // namespace attention
