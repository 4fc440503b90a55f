// The options of a random call that need memory of their own.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "core/tensor/seeded.h"
#include "tests/core/fuzz/fuzz_problem.h"
#include "tests/support/attention_problem.h"

namespace attention {

/// What belongs to heads and to rows of queries and keys.
void FuzzProblem::MakeRows() {
  const auto seed = static_cast<uint64_t>(case_.seed) * 8;
  const auto heads = static_cast<size_t>(extents_.num_heads);
  if (case_.alibi != 0) {
    Tensor slopes(Dtype::kF32, {extents_.num_heads});
    for (int64_t h = 0; h < extents_.num_heads; ++h) {
      const float slope =
          std::exp2(-8.0f * static_cast<float>(h + 1) / static_cast<float>(extents_.num_heads));
      slopes.as<float>()[h] = case_.alibi == 1 ? slope : (h % 2 == 0 ? -slope : slope) / 64;
    }
    options_.alibi_slopes = {PlaceFloats(slopes), heads};
  }
  if (case_.sinks != 0) {
    Tensor sinks = SeededTensor(seed + 3, Dtype::kF32, {extents_.num_heads});
    for (int64_t h = 0; h < extents_.num_heads; ++h) {
      sinks.as<float>()[h] *= case_.sinks == 1 ? 1 : 100;
    }
    options_.sinks = {PlaceFloats(sinks), heads};
  }
  const auto norm = [&](int64_t kind, uint64_t salt) -> std::optional<RmsNorm> {
    if (kind < 2) {
      return kind == 0 ? std::nullopt
                       : std::optional<RmsNorm>({.weight = PlaceFloats(SeededTensor(
                                                     seed + salt, Dtype::kF32, {case_.dim}))});
    }
    return RmsNorm{.epsilon = 0.3f};
  };
  options_.query_norm = norm(case_.query_norm, 4);
  options_.key_norm = norm(case_.key_norm, 5);
  if (case_.rotary != 0) {
    options_.rotary = MakeRotary();
  }
  auto* tokens = reinterpret_cast<int64_t*>(
      NewMemory(case_.global_tokens * static_cast<int64_t>(sizeof(int64_t))));
  for (int64_t i = 0; i < case_.global_tokens; ++i) {
    tokens[i] =
        case_.global_end == 0
            ? i * case_.kv_len / case_.global_tokens
            : case_.kv_len - 1 - (case_.global_tokens - 1 - i) * case_.kv_len / case_.global_tokens;
  }
  options_.global_tokens = {tokens, static_cast<size_t>(case_.global_tokens)};
}

Rotary FuzzProblem::MakeRotary() {
  Rotary rotary{.dim = case_.rotary_dim,
                .base = static_cast<double>(case_.rotary_base),
                .interleaved = case_.rotary == 2,
                .position_offset = case_.rotary_offset};
  if (case_.rotary_scaling == 4) {
    const int64_t pairs = (rotary.dim == 0 ? case_.dim : rotary.dim) / 2;
    auto* frequencies =
        reinterpret_cast<double*>(NewMemory(pairs * static_cast<int64_t>(sizeof(double))));
    for (int64_t i = 0; i < pairs; ++i) {
      frequencies[i] = std::exp2(-0.3 * static_cast<double>(i)) / (i % 2 == 0 ? 1 : 16);
    }
    rotary.frequencies = frequencies;
    rotary.magnitude = 1.2;
    return rotary;
  }
  constexpr Rotary::Scaling kScalings[] = {Rotary::Scaling::kNone, Rotary::Scaling::kLinear,
                                           Rotary::Scaling::kLlama3, Rotary::Scaling::kLlama3};
  rotary.scaling = kScalings[case_.rotary_scaling];
  rotary.factor = case_.rotary_scaling == 0 ? 1.0 : 4.0;
  rotary.original_max_positions = 256;
  if (case_.rotary_scaling == 3) {
    rotary.factor = 32;
    rotary.low_freq_factor = 2.5;
    rotary.high_freq_factor = 6;
    rotary.original_max_positions = 8192;
  }
  return rotary;
}

/// Makes NaN of the biases of keys that are hidden from the row of every head that has the bias.
void FuzzProblem::PoisonHiddenBiases() {
  const reference::Options options = ReferenceOptions(dense_options_, extents_);
  const int64_t heads = case_.bias == 1 ? 1 : extents_.num_heads;  // that share a bias
  const int64_t rows = extents_.query_len;
  const int64_t keys = extents_.kv_len;
  for (int64_t i = 0; i < dense_bias_.num_elements(); ++i) {
    const int64_t first_head = case_.bias == 1 ? i / (rows * keys) : 0;
    bool is_hidden = true;
    for (int64_t h = first_head; h < first_head + heads && is_hidden; ++h) {
      is_hidden = !reference::AttendsTo(extents_, options, h, i / keys % rows, i % keys);
    }
    if (is_hidden) {
      dense_bias_.as<float>()[i] = std::numeric_limits<float>::quiet_NaN();
    }
  }
}

/// Biases and masks: [heads, rows, keys], rows apart by the padding.
void FuzzProblem::MakeScores() {
  const int64_t rows = extents_.query_len;
  const int64_t keys = extents_.kv_len;
  const int64_t stride = keys + case_.padding;
  const auto place = [&](const auto* dense, int64_t heads) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(dense)>>;
    const int64_t count = rows * heads == 0 ? 0 : (rows * heads - 1) * stride + keys;
    T* placed = reinterpret_cast<T*>(NewMemory(count * static_cast<int64_t>(sizeof(T))));
    for (int64_t r = 0; r < rows * heads && keys > 0; ++r) {
      std::memcpy(placed + r * stride, dense + r * keys, keys * sizeof(T));
    }
    return ScoreView<T>{placed, heads == 1 ? 0 : rows * stride, stride};
  };
  const auto seed = static_cast<uint64_t>(case_.seed) * 8;
  if (case_.mask != 0) {
    const int64_t heads = case_.mask <= 2 ? extents_.num_heads : 1;
    const bool has_runs = case_.mask % 2 == 0;
    const Tensor values = SeededTensor(seed + 7, Dtype::kF32, {heads, rows, keys});
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      const int64_t run = i % keys / 300 + i / keys / 10;
      dense_mask_.push_back(has_runs ? run % 3 == 0 : values.as<float>()[i] < 0.7f);
    }
    options_.mask = place(dense_mask_.data(), heads);
    dense_options_.mask = {dense_mask_.data(), heads == 1 ? 0 : rows * keys, keys};
  }
  if (case_.bias != 0) {
    const int64_t heads = case_.bias == 1 ? extents_.num_heads : 1;
    dense_bias_ = SeededTensor(seed + 6, Dtype::kF32, {heads, rows, keys});
    const bool hides = case_.bias_kind == 1 || case_.bias_kind == 2;
    for (int64_t i = 0; hides && i < dense_bias_.num_elements(); ++i) {
      float& bias = dense_bias_.as<float>()[i];
      if (bias > 0.5f || i / keys % 5 == 3) {
        bias = case_.bias_kind == 1 ? -std::numeric_limits<float>::infinity()
                                    : std::numeric_limits<float>::lowest();
      }
    }
    if (case_.bias_kind == 3) {
      PoisonHiddenBiases();
    }
    options_.bias = place(dense_bias_.as<float>(), heads);
    dense_options_.bias = {dense_bias_.as<float>(), heads == 1 ? 0 : rows * keys, keys};
  }
}

}  // namespace attention
