#include "core/attention/resolve.h"

#include <algorithm>
#include <cmath>

#include "core/attention/kv_cache.h"
#include "core/kernels/onednn/isa.h"

namespace attention {
namespace {

/// Returns the operand type of the products. It is f32 for regression, linear attention and 8-bit
/// keys (unless these are multiplied as integers), and, without a cache, for normalised or rotated
/// rows: rounding them to bf16 once more would exceed the tolerance for bf16.
Dtype ComputeDtypeOf(const FlashSequence& sequence, Dtype dtype) {
  if (sequence.options.similarity != Similarity::kDotProduct) {
    return Dtype::kF32;
  }
  if (!sequence.cached.has_value()) {
    const bool prepares = sequence.options.query_norm.has_value() ||
                          sequence.options.key_norm.has_value() ||
                          sequence.options.rotary.has_value();
    return prepares ? Dtype::kF32 : ComputeDtype(dtype);
  }
  return sequence.cached->storage == KeyValueStorage::kBf16 ? ComputeDtype(Dtype::kBf16)
                                                            : Dtype::kF32;
}

}  // namespace

FlashSequence Resolve(const AttentionSequence& s, int64_t coming_keys) {
  FlashSequence result = {
      .query = s.query, .key = s.key, .value = s.value, .output = s.output, .options = s.options};
  result.weights = s.weights;
  result.top_k = s.top_weights.k;
  result.top_weights = s.top_weights.weights;
  result.top_keys = s.top_weights.keys;
  result.log_sum_exp = s.log_sum_exp;
  if (s.cache != nullptr) {
    const KvCacheShape& shape = s.cache->shape();
    const int64_t kv_len = s.cache->length() + coming_keys;
    result.cached = s.cache->View();
    result.key = {nullptr, s.query.dtype, kv_len, shape.num_kv_heads, shape.head_dim};
    result.value = {nullptr, s.query.dtype, kv_len, shape.num_kv_heads, shape.value_head_dim};
  }
  result.compute = ComputeDtypeOf(result, s.query.dtype);
  AttentionOptions& options = result.options;
  options.scale = options.scale.value_or(1.0f / std::sqrt(static_cast<float>(s.query.head_dim)));
  options.query_offset = options.query_offset.value_or(result.kv_len() - s.query.tokens);
  for (const VisibilityNumber& number : kVisibilityNumbers) {
    options.*number.value = std::min(options.*number.value, kFarthestKey);
  }
  return result;
}

absl::Status Announce(const Stage& stage, const RowsCallback& on_rows) {
  for (const RowRange& rows : stage) {
    if (!on_rows(rows)) {
      return absl::CancelledError("cancelled between row blocks");
    }
  }
  return absl::OkStatus();
}

}  // namespace attention
