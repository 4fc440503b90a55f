#include "tests/core/fuzz/fuzz_problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/tensor/seeded.h"

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
  constexpr float kScales[] = {1, 0, -1, 2, 20, 1e-36f};
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

KeyValueStorage FuzzProblem::storage() const {
  constexpr KeyValueStorage kStorages[] = {KeyValueStorage::kF32, KeyValueStorage::kF32,
                                           KeyValueStorage::kBf16, KeyValueStorage::kInt8};
  return kStorages[case_.cache];
}

HeadsView FuzzProblem::residual() const {
  const Shape& shape = dense_residual_.shape();
  return DenseHeads(dense_residual_.data(), Dtype::kF32, shape[0], shape[1], shape[2]);
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

/// Multiplies values by the size of the case's.
void FuzzProblem::Resize(Tensor& tensor) const {
  const int64_t count = tensor.num_elements();
  std::vector<float> values(count);
  Convert(tensor.dtype(), tensor.data(), Dtype::kF32, values.data(), count);
  for (float& value : values) {
    value *= static_cast<float>(ValueSize(case_));
  }
  Convert(Dtype::kF32, values.data(), tensor.dtype(), tensor.data(), count);
}

void FuzzProblem::MakeTensors() {
  const auto dtype = static_cast<Dtype>(case_.key_dtype == 0 ? case_.dtype : case_.key_dtype - 1);
  const auto seed = static_cast<uint64_t>(case_.seed) * 8;
  dense_query_ = SeededTensor(seed, static_cast<Dtype>(case_.dtype),
                              {case_.query_len, extents_.num_heads, case_.dim});
  PoisonQuery();
  dense_key_ = SeededTensor(seed + 1, dtype, {case_.kv_len, case_.kv_heads, case_.dim});
  dense_value_ = SeededTensor(seed + 2, dtype, {case_.kv_len, case_.kv_heads, case_.value_dim});
  Resize(dense_value_);
  if (case_.residual != 0) {
    dense_residual_ =
        SeededTensor(seed + 3, Dtype::kF32, {case_.query_len, extents_.num_heads, case_.value_dim});
    Resize(dense_residual_);
  }
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

}  // namespace attention
