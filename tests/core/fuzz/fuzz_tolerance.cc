#include "tests/core/fuzz/fuzz_tolerance.h"

#include <algorithm>

#include "core/kernels/attention/options.h"
#include "core/kernels/linear/linear_weights.h"
#include "core/kernels/onednn/isa.h"
#include "core/reference/reference.h"

namespace attention {
namespace {

/// Whether the products are of bf16.
bool MultipliesBf16(const FuzzCase& c) {
  const bool is_bf16 =
      c.cache == 2 || (c.cache == 0 && static_cast<Dtype>(c.dtype) == Dtype::kBf16);
  return is_bf16 && ComputeDtype(Dtype::kBf16) == Dtype::kBf16;
}

/// Whether the products are of 8-bit integers.
bool IsOf8Bits(const FuzzCase& c) {
  return c.cache == 3 && static_cast<Similarity>(c.similarity) == Similarity::kDotProduct &&
         MultipliesInt8();
}

bool Keeps(const FuzzCase& c, WeightsDtype dtype) {
  return c.layer != 0 && static_cast<WeightsDtype>(c.layer_dtype) == dtype;
}

/// Whether a layer rounds its rows to bf16.
bool IsBf16Layer(const FuzzCase& c) {
  return Keeps(c, WeightsDtype::kBf16) && ComputeDtype(Dtype::kBf16) == Dtype::kBf16;
}

/// Whether rows are computed before they are multiplied.
bool IsPrepared(const FuzzCase& c) {
  return c.key_norm + c.query_norm + c.rotary + c.layer_weights != 0 ||
         Keeps(c, WeightsDtype::kInt8);
}

/// The error that the products of a layer add at least.
double ToleranceOfProducts(const FuzzCase& c) {
  if (IsBf16Layer(c)) {
    return 2e-2;
  }
  if (Keeps(c, WeightsDtype::kInt8)) {
    return 2e-3;  // of 8 bits, few numbers are rounded to the other side
  }
  return c.layer_weights != 0 ? reference::kLayerToleranceF32 : 0;
}

}  // namespace

double ToleranceOfSums(const FuzzCase& c) {
  double tolerance = reference::kAttentionToleranceF32;
  const bool has_large_logits = c.scale == 3 || c.key_norm != 0 || c.query_norm != 0 ||
                                c.rotary_scaling == 4 || c.bandwidth == 2;
  if (has_large_logits) {
    tolerance = 2e-6;
  }
  if (c.repeats > 0 && c.repeats < 8) {
    tolerance = std::max(tolerance, 3e-6);  // the roundings of equal values do not cancel
  }
  if (c.alibi != 0 && c.mask != 0 && c.mask % 2 == 0) {
    tolerance = 1e-5;  // all near keys may be hidden, and the logits of far ones are large
  }
  if (c.scale == 4 || c.alibi == 2) {
    tolerance = 2e-5;
  }
  if (c.cache > 1 && IsPrepared(c)) {
    // A prepared row that is rounded by the cache may be rounded to the other side here.
    tolerance = c.cache == 2 ? 1e-3 : 5e-3;
  }
  if (MultipliesBf16(c)) {
    // Beside a large sink the error of a logit is the relative error of its row.
    const bool has_large_errors = has_large_logits || c.sinks == 2;
    tolerance = c.cache == 2 ? 5e-3 : reference::kAttentionToleranceBf16;
    tolerance *= c.cache == 2 && has_large_errors ? 4 : 1;
  }
  tolerance = std::max(tolerance, ToleranceOfProducts(c));
  return IsOf8Bits(c) ? 2e-2 : tolerance;
}

double ToleranceOf(const FuzzCase& c, Dtype output_dtype) {
  constexpr double kOfRounding[] = {0, reference::kAttentionToleranceBf16, 5e-4};
  return std::max(ToleranceOfSums(c), kOfRounding[static_cast<int>(output_dtype)]);
}

double WeightsToleranceOf(const FuzzCase& c) {
  // Queries are rounded too where products with a cache of bf16 are of bf16.
  const bool is_rounded = (c.cache > 1 && IsPrepared(c)) || IsBf16Layer(c) ||
                          (MultipliesBf16(c) && (c.cache == 2 || IsPrepared(c)));
  return std::max(4e-6, is_rounded ? ToleranceOfSums(c) : 0);
}

double LogSumExpToleranceOf(const FuzzCase& c) {
  if (MultipliesBf16(c) || IsBf16Layer(c)) {
    return 2e-1;
  }
  // The keys of an 8-bit cache are rounded to f32 after their scale: near the edge of a triangle
  // that is much of a weight, and the only one of a row may lie there.
  const bool is_near_edge =
      c.cache == 3 && static_cast<Similarity>(c.similarity) == Similarity::kTriangular;
  if (IsOf8Bits(c) || (c.cache > 1 && IsPrepared(c)) || is_near_edge) {
    return 1e-2;
  }
  // The parts of a large score, or it and the ALiBi of a far key, may cancel.
  return c.scale == 4 ? 1e-4 : 1e-5;
}

}  // namespace attention
