// Which numbers of a case fit together.
#include <algorithm>
#include <cstdlib>

#include "core/kernels/attention/options.h"
#include "core/kernels/linear/linear_weights.h"
#include "core/tensor/dtype.h"
#include "tests/core/fuzz/fuzz_case.h"

namespace attention {
namespace {

void DropWhatSimilarityRefuses(FuzzCase& c) {
  const auto similarity = static_cast<Similarity>(c.similarity);
  if (similarity == Similarity::kDotProduct) {
    return;
  }
  c.scale = c.softcap = c.alibi = c.bias = c.sinks = 0;
  if (similarity == Similarity::kLinear) {
    c.window = c.window_right = c.prefix = c.global_tokens = c.mask = c.cache = 0;
    c.window_dilation = 1;
    return;
  }
  // Of box and triangle, a rounding of the rows may turn a weight into none.
  if (similarity != Similarity::kGaussian) {
    c.query_norm = c.key_norm = c.rotary = 0;
  }
}

/// Whether rows that are computed before later keys are appended attend to none of these.
bool CanGrow(const FuzzCase& c) {
  return c.causal != 0 && c.has_offset == 0 && c.prefix == 0 && c.global_tokens == 0 &&
         c.query_len <= c.kv_len;
}

/// The most columns of a layer's products.
constexpr int64_t kMostColumns = 600;

int64_t ColumnsOf(const FuzzCase& c) {
  return c.kv_heads * (c.group * (c.dim + c.value_dim) + c.dim + c.value_dim);
}

/// Drops what the rest of a layer call forbids.
void DropWhatProductsRefuse(FuzzCase& c) {
  if (c.layer_weights != 0 || static_cast<WeightsDtype>(c.layer_dtype) == WeightsDtype::kInt8) {
    c.value_size = 0;  // its rows are mixed, or rounded together
  }
  if (c.layer_weights != 0 || c.layer_dtype != 0) {
    c.scale = c.scale == 4 ? 3 : c.scale;
  }
  c.extra_keys = c.cache != 0 ? 0 : c.extra_keys;
  const auto output_dtype = static_cast<Dtype>(c.output_dtype == 0 ? c.dtype : c.output_dtype - 1);
  c.residual = output_dtype != Dtype::kF32 ? std::min<int64_t>(c.residual, 1) : c.residual;
  c.parts = NeedsLayer(c) ? 0 : c.parts;
}

void DropWhatALayerRefuses(FuzzCase& c) {
  const auto similarity = static_cast<Similarity>(c.similarity);
  if (similarity == Similarity::kBox || similarity == Similarity::kTriangular) {
    c.layer_weights = c.layer_dtype = 0;  // see DropWhatSimilarityRefuses
  }
  // The compute type of a layer of f32 weights is f32.
  if (ColumnsOf(c) > kMostColumns ||
      (static_cast<Dtype>(c.dtype) == Dtype::kBf16 && c.layer_dtype == 0)) {
    c.layer = 0;
  }
  if (c.layer == 0) {
    c.layer_weights = c.layer_dtype = c.extra_keys = c.residual = 0;
    c.stored_dtype = c.transposed = c.stored_padding = c.shared_rotations = 0;
    return;
  }
  // A product with the identity makes a row of NaN of one NaN.
  c.poison = c.query_poison = 0;
  if (c.layer == 2 && (c.query_len > c.kv_len || (c.cache == 0 && c.query_len < c.kv_len))) {
    c.layer = 1;
  }
  c.shared_rotations = c.rotary == 0 ? 0 : c.shared_rotations;
  c.layer = c.layer == 3 && c.dim == c.value_dim ? 1 : c.layer;  // both memories are one
  c.cache = c.layer != 2 ? 0 : c.cache;
  c.key_dtype = 0;
  if (c.layer == 2 && (c.cache == 0 || !CanGrow(c))) {
    c.query_cut = 0;
  }
  DropWhatProductsRefuse(c);
}

void DropWhatNeedsAnother(FuzzCase& c) {
  if (c.poison == 0) {
    c.poison_kind = c.poison_head = 0;
  }
  c.bandwidth = IsRegression(static_cast<Similarity>(c.similarity)) ? c.bandwidth : 0;
  c.global_end = c.global_tokens == 0 ? 0 : c.global_end;
  c.bias_kind = c.bias == 0 ? 0 : c.bias_kind;
  if (c.rotary == 0) {
    c.rotary_scaling = c.rotary_offset = 0;
    c.rotary_base = FuzzCase().rotary_base;
  }
  if (c.rotary != 0 || c.alibi != 0) {
    // Angles and ALiBi of farther positions are not exact in the reference.
    c.offset = std::clamp<int64_t>(c.offset, -100'000, 100'000);
  }
  if (c.mates == 0) {
    c.bad_mates = c.mate_kind = 0;
  }
  // Rounded keys and large logits make other weights.
  c.scale = c.scale == 4 && c.cache > 1 ? 3 : c.scale;
  if (c.cache == 0) {
    c.cache_cut = c.cache_history = c.cache_budget = c.small_pages = c.grows = c.key_dtype = 0;
  }
  // The keys that come later must be hidden from the rows that are computed before.
  if (!CanGrow(c) || c.query_cut == 0 || c.layer != 0) {
    c.grows = 0;
  }
  // The logarithm of a sum of the lowest numbers does not tell how many there were.
  // That of ALiBi far from all keys has too few digits left, as f32, to merge by.
  if (c.global_tokens != 0 || c.bias_kind == 2 || (c.alibi != 0 && std::abs(c.offset) > 10'000)) {
    c.parts = 0;
  }
  constexpr auto kF16 = static_cast<int64_t>(Dtype::kF16);
  if (c.dtype == kF16 || c.key_dtype == 1 + kF16 || c.output_dtype == 1 + kF16) {
    c.value_size = 0;
    c.sinks = std::min<int64_t>(c.sinks, 1);  // f16 has too few digits for tiny numbers
  }
}

/// Whether the reference would take more than some 30 ms.
bool IsLong(const FuzzCase& c) {
  const bool has_products = c.layer != 0 && (c.layer_weights != 0 || c.layer_dtype != 0);
  const int64_t columns = has_products ? std::min(ColumnsOf(c), kMostColumns) : 0;
  return c.query_len * c.kv_len * c.kv_heads * c.group * (c.dim + c.value_dim) > 20'000'000 ||
         (c.query_len + c.kv_len) * columns * columns > 40'000'000;
}

}  // namespace

FuzzCase Valid(FuzzCase c) {
  while (IsLong(c)) {
    int64_t& longest = c.query_len > c.kv_len ? c.query_len : c.kv_len;
    longest /= 2;
  }
  DropWhatSimilarityRefuses(c);
  c.window_dilation = c.window > 0 ? std::max<int64_t>(c.window_dilation, 1) : 1;
  c.global_tokens = std::min(c.global_tokens, c.kv_len);
  c.poison = std::min(c.poison, c.kv_len);
  c.query_poison = std::min(c.query_poison, c.query_len);
  DropWhatALayerRefuses(c);
  DropWhatNeedsAnother(c);
  c.rotary = c.dim < 2 ? 0 : c.rotary;
  c.rotary_dim = c.rotary == 0 ? 0 : std::min(c.rotary_dim, c.dim) / 2 * 2;
  if (c.rotary != 0 && c.rotary_dim == 0 && c.dim % 2 != 0) {
    c.rotary_dim = c.dim - 1;
  }
  c.offset = c.has_offset != 0 ? c.offset : 0;
  return c;
}

}  // namespace attention
