#include "core/layers/multi_head_attention.h"

#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/kernels/onednn/isa.h"
#include "core/layers/cached_keys.h"
#include "core/layers/layer_run.h"
#include "core/layers/validate_call.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

absl::Status ValidateShape(const MultiHeadAttentionShape& s) {
  const std::pair<const char*, int64_t> extents[] = {
      {"d_model", s.d_model},     {"d_memory", s.d_memory},
      {"num_heads", s.num_heads}, {"num_kv_heads", s.num_kv_heads},
      {"head_dim", s.head_dim},   {"value_head_dim", s.value_head_dim}};
  for (const auto& [name, value] : extents) {
    if (value < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": expected a positive number, found ", value));
    }
  }
  if (s.d_memory_value < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("d_memory_value: expected 0 or more, found ", s.d_memory_value));
  }
  if (s.num_heads % s.num_kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_heads: expected a multiple of num_kv_heads ", s.num_kv_heads, ", found ",
                     s.num_heads));
  }
  for (const auto& [name, width] :
       {std::pair("head_dim", s.head_dim), std::pair("value_head_dim", s.value_head_dim)}) {
    if (width > kMaxHeadDim) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": expected at most ", kMaxHeadDim, ", found ", width));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateExtraKey(const MultiHeadAttentionShape& s,
                              const MultiHeadAttentionWeights& weights) {
  if (weights.extra_key.empty() && weights.extra_value.empty()) {
    return absl::OkStatus();
  }
  for (const auto& [name, expected, found] :
       {std::tuple("extra_key", s.num_kv_heads * s.head_dim, std::ssize(weights.extra_key)),
        std::tuple("extra_value", s.num_kv_heads * s.value_head_dim,
                   std::ssize(weights.extra_value))}) {
    if (expected != found) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": expected ", expected, " numbers, found ", found));
    }
  }
  return absl::OkStatus();
}

bool HasEvenWidths(const MultiHeadAttentionShape& s) {
  return s.d_model % 2 == 0 && s.d_memory % 2 == 0 && s.d_memory_value % 2 == 0 &&
         s.num_heads * s.value_head_dim % 2 == 0;
}

}  // namespace

LayerState::LayerState(const MultiHeadAttentionShape& s, const MultiHeadAttentionWeights& w,
                       WeightsDtype dtype)
    : shape(s),
      weights_dtype(dtype),
      compute(RowsDtype(dtype, HasEvenWidths(s))),
      extra{w.extra_key, w.extra_value, w.has_zero_key} {
  using Parts = std::vector<PackedLinear::Part>;
  const auto pack = [&](int64_t in_features, const Parts& parts) {
    return std::make_unique<PackedLinear>(in_features, parts, PackedLinear::Format{dtype, compute});
  };
  const PackedLinear::Part key_part{w.key, s.num_kv_heads * s.head_dim};
  const PackedLinear::Part value_part{w.value, s.num_kv_heads * s.value_head_dim};
  Parts query = {{w.query, s.num_heads * s.head_dim}};
  if (s.has_memory_values()) {
    memory_projection = pack(s.d_memory, {key_part});
    value_projection = pack(s.d_memory_value, {value_part});
    key = {memory_projection.get(), 0};
    value = {value_projection.get(), 0};
  } else if (s.d_memory != s.d_model) {
    memory_projection = pack(s.d_memory, {key_part, value_part});
    key = {memory_projection.get(), 0};
    value = {memory_projection.get(), 1};
  } else {
    query.insert(query.end(), {key_part, value_part});
  }
  projection = pack(s.d_model, query);
  if (key.linear == nullptr) {
    key = {projection.get(), 1};
    value = {projection.get(), 2};
  }
  output = pack(s.num_heads * s.value_head_dim, {{w.output, s.d_model}});
}

absl::StatusOr<std::unique_ptr<MultiHeadAttention>> MultiHeadAttention::Create(
    const MultiHeadAttentionShape& shape, const MultiHeadAttentionWeights& weights,
    WeightsDtype dtype) {
  RETURN_IF_ERROR(ValidateShape(shape));
  RETURN_IF_ERROR(ValidateExtraKey(shape, weights));
  return std::unique_ptr<MultiHeadAttention>(
      new MultiHeadAttention(std::make_unique<LayerState>(shape, weights, dtype)));
}

MultiHeadAttention::MultiHeadAttention(std::unique_ptr<LayerState> state)
    : state_(std::move(state)) {}
MultiHeadAttention::~MultiHeadAttention() = default;

const MultiHeadAttentionShape& MultiHeadAttention::shape() const { return state_->shape; }
Dtype MultiHeadAttention::dtype() const {
  return state_->weights_dtype == WeightsDtype::kBf16 ? Dtype::kBf16 : Dtype::kF32;
}
Dtype MultiHeadAttention::compute() const { return state_->compute; }
int64_t MultiHeadAttention::extra_keys() const { return state_->extra.count(); }

absl::StatusOr<KvCacheShape> MultiHeadAttention::CacheShape(KeyValueStorage storage) const {
  return CacheShapeOf(shape(), extra_keys(), storage);
}

double MultiHeadAttention::Flops(int64_t rows, double attended_pairs, int64_t memory_rows) const {
  const LayerFlops flops(shape());
  const int64_t key_rows = memory_rows == 0 ? rows : memory_rows;
  return (flops.query + flops.output) * static_cast<double>(rows) +
         flops.key * static_cast<double>(key_rows) + flops.pair * attended_pairs;
}

size_t MultiHeadAttention::size_bytes() const {
  size_t total_bytes = 0;
  for (const auto* linear : {state_->projection.get(), state_->memory_projection.get(),
                             state_->value_projection.get(), state_->output.get()}) {
    total_bytes += linear == nullptr ? 0 : linear->size_bytes();
  }
  return total_bytes;
}

absl::Status MultiHeadAttention::Run(const LayerCall& call, Workspace& workspace) const {
  if (call.sequences.empty()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(ValidateCall(shape(), call));
  const CachedKeys cached(shape(), extra_keys(), call, workspace.pool());
  RETURN_IF_ERROR(cached.Reserve());
  return LayerRun(*state_, call, cached, workspace).Run();
}

}  // namespace attention
