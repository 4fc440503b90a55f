#include "tests/core/fuzz/fuzz_problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "core/tensor/seeded.h"
#include "tests/support/attention_problem.h"
#include "tests/support/golden.h"

namespace attention {
namespace {

/// Bytes from the view's first element to its last.
int64_t SpanBytes(int64_t tokens, int64_t stride, int64_t row, Dtype dtype) {
  return tokens == 0 ? 0 : ((tokens - 1) * stride + row) * static_cast<int64_t>(SizeOf(dtype));
}

double BandwidthOf(const FuzzCase& c) {
  const double squared_distance = 2.0 * static_cast<double>(c.dim);  // of N(0, 1) rows, about
  return static_cast<Similarity>(c.similarity) == Similarity::kGaussian
             ? squared_distance
             : 1.1 * std::sqrt(squared_distance);
}

}  // namespace

FuzzProblem::FuzzProblem(const FuzzCase& c)
    : case_(c),
      extents_{c.query_len, c.kv_len, c.kv_heads * c.group, c.kv_heads, c.dim, c.value_dim} {
  MakeTensors();
  options_.causal = c.causal != 0;
  if (c.has_offset != 0) {
    options_.query_offset = c.offset;
  }
  options_.window = c.window;
  options_.window_right = c.window_right;
  options_.window_dilation = c.window_dilation;
  options_.prefix = c.prefix;
  constexpr float kScales[] = {1, 0, -1, 2, 20, 1e-38f};
  if (c.scale != 0) {
    options_.scale = kScales[c.scale] / std::sqrt(static_cast<float>(c.dim));
  }
  options_.softcap = static_cast<float>(c.softcap);
  options_.similarity = static_cast<Similarity>(c.similarity);
  options_.bandwidth = IsRegression(options_.similarity) ? BandwidthOf(c) : 0;
  MakeRows();
  dense_options_ = options_;
  MakeScores();
}

std::byte* FuzzProblem::NewMemory(int64_t bytes) {
  const auto side = case_.at_begin != 0 ? GuardedMemory::Side::kBegin : GuardedMemory::Side::kEnd;
  memory_.push_back(std::make_unique<GuardedMemory>(bytes, side));
  return memory_.back()->data();
}

MutableHeadsView FuzzProblem::NewHeads(int64_t tokens, int64_t num_heads, int64_t width) {
  const auto dtype = static_cast<Dtype>(case_.dtype);
  const int64_t stride = num_heads * width + case_.padding;
  const int64_t bytes = SpanBytes(tokens, stride, num_heads * width, dtype);
  std::byte* data = NewMemory(bytes);
  std::memset(data, kFiller, bytes);
  return {data, dtype, tokens, num_heads, width, stride, width};
}

HeadsView FuzzProblem::Place(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  const MutableHeadsView view = NewHeads(shape[0], shape[1], shape[2]);
  const int64_t row = shape[1] * shape[2];
  for (int64_t t = 0; t < shape[0]; ++t) {
    std::memcpy(ElementAt(view.data, view.dtype, t * view.token_stride),
                ElementAt(tensor.data(), view.dtype, t * row), row * SizeOf(view.dtype));
  }
  return {view.data,     view.dtype,        view.tokens,     view.num_heads,
          view.head_dim, view.token_stride, view.head_stride};
}

Tensor FuzzProblem::Dense(const HeadsView& view) {
  Tensor dense(view.dtype, {view.tokens, view.num_heads, view.head_dim});
  const int64_t row = view.num_heads * view.head_dim;
  for (int64_t t = 0; t < view.tokens; ++t) {
    std::memcpy(ElementAt(dense.data(), view.dtype, t * row),
                ElementAt(view.data, view.dtype, t * view.token_stride), row * SizeOf(view.dtype));
  }
  return dense;
}

bool FuzzProblem::HasCleanPadding(const HeadsView& view) {
  const int64_t row = view.num_heads * view.head_dim;
  for (int64_t t = 0; t + 1 < view.tokens; ++t) {
    const auto* gap = static_cast<const unsigned char*>(
        ElementAt(view.data, view.dtype, t * view.token_stride + row));
    for (size_t i = 0; i < (view.token_stride - row) * SizeOf(view.dtype); ++i) {
      if (gap[i] != kFiller) {
        return false;
      }
    }
  }
  return true;
}

void FuzzProblem::Poison(Tensor& tensor) const {
  const int64_t row = case_.kv_heads * tensor.shape()[2];
  const float number = case_.poison_kind % 2 != 0 ? std::numeric_limits<float>::infinity()
                                                  : std::numeric_limits<float>::quiet_NaN();
  const int64_t count = case_.poison_head != 0 ? tensor.shape()[2] : row;
  const std::vector<float> values(count, number);
  Convert(Dtype::kF32, values.data(), tensor.dtype(),
          ElementAt(tensor.data(), tensor.dtype(), (case_.poison - 1) * row), count);
}

void FuzzProblem::MakeTensors() {
  const auto dtype = static_cast<Dtype>(case_.dtype);
  const auto seed = static_cast<uint64_t>(case_.seed) * 8;
  dense_query_ = SeededTensor(seed, dtype, {case_.query_len, extents_.num_heads, case_.dim});
  dense_key_ = SeededTensor(seed + 1, dtype, {case_.kv_len, case_.kv_heads, case_.dim});
  dense_value_ = SeededTensor(seed + 2, dtype, {case_.kv_len, case_.kv_heads, case_.value_dim});
  for (Tensor* tensor : {&dense_key_, &dense_value_}) {
    const int64_t row = case_.kv_heads * tensor->shape()[2];
    for (int64_t key = case_.repeats; case_.repeats > 0 && key < case_.kv_len; ++key) {
      std::memcpy(ElementAt(tensor->data(), dtype, key * row),
                  ElementAt(tensor->data(), dtype, (key - case_.repeats) * row),
                  row * SizeOf(dtype));
    }
  }
  if (case_.poison > 0) {
    if (PoisonsKey()) {
      Poison(dense_key_);
    }
    if (case_.poison_kind != 2 && case_.poison_kind != 3) {
      Poison(dense_value_);
    }
  }
  query_ = Place(dense_query_);
  key_ = Place(dense_key_);
  value_ = Place(dense_value_);
}

const float* FuzzProblem::PlaceFloats(const Tensor& tensor) {
  auto* placed = reinterpret_cast<float*>(NewMemory(static_cast<int64_t>(tensor.size_bytes())));
  if (tensor.size_bytes() > 0) {
    std::memcpy(placed, tensor.data(), tensor.size_bytes());
  }
  return placed;
}

/// What belongs to heads and to rows of queries and keys.
void FuzzProblem::MakeRows() {
  const auto seed = static_cast<uint64_t>(case_.seed) * 8;
  const auto heads = static_cast<size_t>(extents_.num_heads);
  if (case_.alibi != 0) {
    Tensor slopes(Dtype::kF32, {extents_.num_heads});
    for (int64_t h = 0; h < extents_.num_heads; ++h) {
      slopes.as<float>()[h] =
          std::exp2(-8.0f * static_cast<float>(h + 1) / static_cast<float>(extents_.num_heads));
    }
    options_.alibi_slopes = {PlaceFloats(slopes), heads};
  }
  if (case_.sinks != 0) {
    options_.sinks = {PlaceFloats(SeededTensor(seed + 3, Dtype::kF32, {extents_.num_heads})),
                      heads};
  }
  if (case_.query_norm != 0) {
    options_.query_norm = {.weight = PlaceFloats(SeededTensor(seed + 4, Dtype::kF32, {case_.dim}))};
  }
  if (case_.key_norm != 0) {
    options_.key_norm = {.weight = PlaceFloats(SeededTensor(seed + 5, Dtype::kF32, {case_.dim}))};
  }
  if (case_.rotary != 0) {
    options_.rotary = Rotary{.dim = case_.rotary_dim,
                             .interleaved = case_.rotary == 2,
                             .scaling = static_cast<Rotary::Scaling>(case_.rotary_scaling),
                             .factor = case_.rotary_scaling == 0 ? 1.0 : 4.0,
                             .original_max_positions = 256,
                             .position_offset = case_.rotary_offset};
  }
  auto* tokens = reinterpret_cast<int64_t*>(
      NewMemory(case_.global_tokens * static_cast<int64_t>(sizeof(int64_t))));
  for (int64_t i = 0; i < case_.global_tokens; ++i) {
    tokens[i] = i * case_.kv_len / case_.global_tokens;
  }
  options_.global_tokens = {tokens, static_cast<size_t>(case_.global_tokens)};
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
  if (case_.bias != 0) {
    const int64_t heads = case_.bias == 1 ? extents_.num_heads : 1;
    dense_bias_ = SeededTensor(seed + 6, Dtype::kF32, {heads, rows, keys});
    for (int64_t i = 0; case_.bias_kind != 0 && i < dense_bias_.num_elements(); ++i) {
      float& bias = dense_bias_.as<float>()[i];
      if (bias > 0.5f || i / keys % 5 == 3) {
        bias = case_.bias_kind == 1 ? -std::numeric_limits<float>::infinity()
                                    : std::numeric_limits<float>::lowest();
      }
    }
    options_.bias = place(dense_bias_.as<float>(), heads);
    dense_options_.bias = {dense_bias_.as<float>(), heads == 1 ? 0 : rows * keys, keys};
  }
  if (case_.mask != 0) {
    const int64_t heads = extents_.num_heads;
    const Tensor values = SeededTensor(seed + 7, Dtype::kF32, {heads, rows, keys});
    for (const float value : std::span(values.as<float>(), values.num_elements())) {
      dense_mask_.push_back(value < 0.7f ? 1 : 0);
    }
    options_.mask = place(dense_mask_.data(), heads);
    dense_options_.mask = {dense_mask_.data(), heads == 1 ? 0 : rows * keys, keys};
  }
}

/// What the reference hides by a mask: it knows no bias of -infinity beside numbers that are not
/// finite.
reference::Options FuzzProblem::OptionsOfReference() const {
  reference::Options options = ReferenceOptions(dense_options_, extents_);
  if (case_.bias == 0 || case_.bias_kind != 1) {
    return options;
  }
  const int64_t scores = extents_.query_len * extents_.kv_len;
  std::vector<uint8_t> mask(extents_.num_heads * scores, 1);
  for (size_t i = 0; i < mask.size(); ++i) {
    const double bias = options.bias[options.bias.size() == mask.size() ? i : i % scores];
    mask[i] =
        static_cast<uint8_t>((options.mask.empty() || options.mask[i] != 0) && std::isfinite(bias));
  }
  options.mask = mask;
  return options;
}

reference::AttentionResult FuzzProblem::Expected() const {
  const reference::Options options = OptionsOfReference();
  reference::AttentionResult result = reference::Attention(
      extents_, ToDoubles(dense_query_), ToDoubles(dense_key_), ToDoubles(dense_value_), options);
  if (case_.poison == 0 || !PoisonsKey()) {
    return result;
  }
  // Nothing is expected of a row that attends to a key that is not finite.
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int64_t h = 0; h < (case_.poison_head != 0 ? case_.group : extents_.num_heads); ++h) {
    for (int64_t i = 0; i < extents_.query_len; ++i) {
      if (!reference::AttendsTo(extents_, options, h, i, case_.poison - 1)) {
        continue;
      }
      const int64_t row = h * extents_.query_len + i;
      std::fill_n(result.weights.begin() + row * extents_.kv_len, extents_.kv_len, nan);
      result.log_sum_exp[row] = nan;
      std::fill_n(result.output.begin() + (i * extents_.num_heads + h) * extents_.value_head_dim,
                  extents_.value_head_dim, nan);
    }
  }
  return result;
}

}  // namespace attention
