#include "tests/core/fuzz/fuzz_problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "core/kernels/onednn/isa.h"
#include "core/tensor/seeded.h"
#include "tests/support/attention_problem.h"
#include "tests/support/golden.h"

namespace attention {
namespace {

/// The elements of a view, and of what lies between them.
int64_t SpanOf(const MutableHeadsView& view) {
  return view.tokens == 0 ? 0
                          : (view.tokens - 1) * view.token_stride +
                                (view.num_heads - 1) * view.head_stride + view.head_dim;
}

template <typename View>
auto* HeadOf(const View& view, int64_t token, int64_t head) {
  return ElementAt(view.data, view.dtype, token * view.token_stride + head * view.head_stride);
}

/// Rounds rows as a cache stores them, in its own arithmetic; `sign` is that of the numbers that
/// are rounded.
void RoundRows(KeyValueStorage storage, int64_t width, float sign, std::vector<double>& rows) {
  for (int64_t row = 0; row < std::ssize(rows); row += width) {
    const std::span<double> numbers(rows.data() + row, width);
    float largest = 0;
    for (const double number : numbers) {
      largest = std::max(largest, std::abs(static_cast<float>(number)));
    }
    if (!std::ranges::all_of(numbers, [](double number) { return std::isfinite(number); })) {
      continue;
    }
    for (double& number : numbers) {
      const auto rounded = static_cast<float>(number);
      if (storage == KeyValueStorage::kBf16) {
        number = ToFloat(ToBf16(rounded));
      } else {
        const float to_integer = largest > 0x1p-100f ? 127.0f / largest : 0.0f;
        const auto integer = static_cast<int32_t>(sign * rounded * to_integer + 128.5f) - 128;
        number = sign * static_cast<double>(largest / 127.0f) * integer;
      }
    }
  }
}

double BandwidthOf(const FuzzCase& c) {
  const double squared_distance = 2.0 * static_cast<double>(c.dim);  // of N(0, 1) rows, about
  constexpr double kFactors[] = {1, 100, 0.3};
  return static_cast<Similarity>(c.similarity) == Similarity::kGaussian
             ? kFactors[c.bandwidth] * squared_distance
             : kFactors[c.bandwidth] * 1.1 * std::sqrt(squared_distance);
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
  options_.softcap = static_cast<float>(c.softcap) / 10;
  options_.similarity = static_cast<Similarity>(c.similarity);
  options_.bandwidth = IsRegression(options_.similarity) ? BandwidthOf(c) : 0;
  MakeRows();
  dense_options_ = options_;
  MakeScores();
}

Dtype FuzzProblem::output_dtype() const {
  return static_cast<Dtype>(case_.output_dtype == 0 ? case_.dtype : case_.output_dtype - 1);
}

double FuzzProblem::value_size() const {
  constexpr double kSizes[] = {1, 0x1p-60, 0x1p60};
  return kSizes[case_.value_size];
}

KeyValueStorage FuzzProblem::storage() const {
  constexpr KeyValueStorage kStorages[] = {KeyValueStorage::kF32, KeyValueStorage::kF32,
                                           KeyValueStorage::kBf16, KeyValueStorage::kInt8};
  return kStorages[case_.cache];
}

std::byte* FuzzProblem::NewMemory(int64_t bytes) {
  const auto side = case_.at_begin != 0 ? GuardedMemory::Side::kBegin : GuardedMemory::Side::kEnd;
  memory_.push_back(std::make_unique<GuardedMemory>(bytes, side));
  return memory_.back()->data();
}

MutableHeadsView FuzzProblem::NewHeads(Dtype dtype, int64_t tokens, int64_t num_heads,
                                       int64_t width) {
  const int64_t gap = case_.padding;
  MutableHeadsView view{nullptr, dtype, tokens, num_heads, width, num_heads * width + gap, width};
  if (case_.by_head != 0) {
    view.token_stride = width + gap;
    view.head_stride = tokens * view.token_stride;
  }
  const int64_t bytes = SpanOf(view) * static_cast<int64_t>(SizeOf(dtype));
  view.data = NewMemory(bytes);
  std::memset(view.data, kFiller, bytes);
  return view;
}

HeadsView FuzzProblem::NewRows(Dtype dtype, const Shape& shape, bool is_nan) {
  const MutableHeadsView view = NewHeads(dtype, shape[0], shape[1], shape[2]);
  const std::vector<float> row(shape[2], is_nan ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
  for (int64_t i = 0; i < shape[0] * shape[1]; ++i) {
    Convert(Dtype::kF32, row.data(), dtype, HeadOf(view, i / shape[1], i % shape[1]), shape[2]);
  }
  return ReadOnly(view);
}

HeadsView FuzzProblem::Place(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  const MutableHeadsView view = NewHeads(tensor.dtype(), shape[0], shape[1], shape[2]);
  for (int64_t row = 0; row < shape[0] * shape[1]; ++row) {
    std::memcpy(HeadOf(view, row / shape[1], row % shape[1]),
                ElementAt(tensor.data(), view.dtype, row * shape[2]),
                shape[2] * SizeOf(view.dtype));
  }
  return ReadOnly(view);
}

Tensor FuzzProblem::Dense(const HeadsView& view) {
  Tensor dense(view.dtype, {view.tokens, view.num_heads, view.head_dim});
  for (int64_t row = 0; row < view.tokens * view.num_heads; ++row) {
    std::memcpy(ElementAt(dense.data(), view.dtype, row * view.head_dim),
                HeadOf(view, row / view.num_heads, row % view.num_heads),
                view.head_dim * SizeOf(view.dtype));
  }
  return dense;
}

bool FuzzProblem::HasCleanPadding(const MutableHeadsView& view) {
  const auto element_bytes = static_cast<int64_t>(SizeOf(view.dtype));
  const auto* bytes = static_cast<const unsigned char*>(view.data);
  const int64_t size = SpanOf(view) * element_bytes;
  std::vector<unsigned char> between(bytes, bytes + size);
  for (int64_t row = 0; row < view.tokens * view.num_heads; ++row) {
    const auto* first =
        static_cast<const unsigned char*>(HeadOf(view, row / view.num_heads, row % view.num_heads));
    std::fill_n(between.begin() + (first - bytes), view.head_dim * element_bytes, kFiller);
  }
  return std::ranges::all_of(between, [](unsigned char byte) { return byte == kFiller; });
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

void FuzzProblem::PoisonQuery() {
  if (case_.query_poison == 0) {
    return;
  }
  const std::vector<float> values(case_.dim, std::numeric_limits<float>::quiet_NaN());
  Convert(Dtype::kF32, values.data(), dense_query_.dtype(),
          ElementAt(dense_query_.data(), dense_query_.dtype(),
                    (case_.query_poison - 1) * extents_.num_heads * case_.dim),
          case_.dim);
}

void FuzzProblem::ResizeValues() {
  const int64_t count = dense_value_.num_elements();
  const Dtype dtype = dense_value_.dtype();
  std::vector<float> values(count);
  Convert(dtype, dense_value_.data(), Dtype::kF32, values.data(), count);
  for (float& value : values) {
    value *= static_cast<float>(value_size());
  }
  Convert(Dtype::kF32, values.data(), dtype, dense_value_.data(), count);
}

void FuzzProblem::MakeTensors() {
  const auto dtype = static_cast<Dtype>(case_.key_dtype == 0 ? case_.dtype : case_.key_dtype - 1);
  const auto seed = static_cast<uint64_t>(case_.seed) * 8;
  dense_query_ = SeededTensor(seed, static_cast<Dtype>(case_.dtype),
                              {case_.query_len, extents_.num_heads, case_.dim});
  PoisonQuery();
  dense_key_ = SeededTensor(seed + 1, dtype, {case_.kv_len, case_.kv_heads, case_.dim});
  dense_value_ = SeededTensor(seed + 2, dtype, {case_.kv_len, case_.kv_heads, case_.value_dim});
  ResizeValues();
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

/// What the reference hides by a mask: it knows no bias of -infinity beside numbers that are not
/// finite.
reference::Options FuzzProblem::OptionsOfReference() const {
  reference::Options options = ReferenceOptions(dense_options_, extents_);
  if (case_.bias == 0 || case_.bias_kind != 1) {
    return options;
  }
  const int64_t scores = extents_.query_len * extents_.kv_len;
  std::vector<uint8_t> mask(extents_.num_heads * scores, 1);
  const auto of_head = [&](const auto& tensor, size_t i) {
    return tensor[tensor.size() == mask.size() ? i : i % scores];
  };
  for (size_t i = 0; i < mask.size(); ++i) {
    const bool is_visible = options.mask.empty() || of_head(options.mask, i) != 0;
    mask[i] = is_visible && std::isfinite(of_head(options.bias, i)) ? 1 : 0;
  }
  options.mask = mask;
  return options;
}

/// The reference's answer to keys, values and queries as they are rounded before the products.
reference::AttentionResult FuzzProblem::Reference(reference::Options options) const {
  const reference::Extents& e = extents_;
  std::vector<double> query = ToDoubles(dense_query_);
  std::vector<double> key = ToDoubles(dense_key_);
  std::vector<double> value = ToDoubles(dense_value_);
  if (storage() != KeyValueStorage::kF32) {
    query =
        reference::PreparedRows(query, e.num_heads, e.head_dim, options.query_norm, options.rotary,
                                options.query_offset.value_or(e.kv_len - e.query_len));
    key = reference::PreparedRows(key, e.num_kv_heads, e.head_dim, options.key_norm, options.rotary,
                                  0);
    options.query_norm = options.key_norm = std::nullopt;
    options.rotary = std::nullopt;
    RoundRows(storage(), e.head_dim, 1, key);
    RoundRows(storage(), e.value_head_dim, 1, value);
    if (storage() == KeyValueStorage::kInt8 && MultipliesInt8() &&
        options_.similarity == Similarity::kDotProduct) {
      RoundRows(storage(), e.head_dim, options.scale.value_or(1) < 0 ? -1 : 1, query);
    }
  }
  return reference::Attention(e, query, key, value, options);
}

/// Nothing is expected of a row that attends to what is not finite.
void FuzzProblem::ExpectNaN(int64_t head, int64_t row, reference::AttentionResult& result) const {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const int64_t index = head * extents_.query_len + row;
  std::fill_n(result.weights.begin() + index * extents_.kv_len, extents_.kv_len, nan);
  result.log_sum_exp[index] = nan;
  std::fill_n(result.output.begin() + (row * extents_.num_heads + head) * extents_.value_head_dim,
              extents_.value_head_dim, nan);
}

reference::AttentionResult FuzzProblem::Expected() const {
  const reference::Options options = OptionsOfReference();
  reference::AttentionResult result = Reference(options);
  const int64_t poisoned_heads = case_.poison_head != 0 ? case_.group : extents_.num_heads;
  for (int64_t h = 0; case_.poison > 0 && PoisonsKey() && h < poisoned_heads; ++h) {
    for (int64_t i = 0; i < extents_.query_len; ++i) {
      if (reference::AttendsTo(extents_, options, h, i, case_.poison - 1)) {
        ExpectNaN(h, i, result);
      }
    }
  }
  for (int64_t j = 0; case_.query_poison > 0 && j < extents_.kv_len; ++j) {
    if (reference::AttendsTo(extents_, options, 0, case_.query_poison - 1, j)) {
      ExpectNaN(0, case_.query_poison - 1, result);
    }
  }
  return result;
}

}  // namespace attention
