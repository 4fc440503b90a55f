#include "core/tensor/seeded.h"

#include <cmath>
#include <utility>

namespace attention {
namespace {

constexpr uint64_t kGoldenGamma = 0x9e3779b97f4a7c15;

uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// The mean of the sum of four uniform numbers of [0, 65535]. Its standard deviation is
// sqrt((2^32 - 1) / 3).
constexpr int32_t kSumMean = 4 * 65535 / 2;
constexpr float kSumStddev = 37837.2273f;

void RoundTo(Dtype dtype, std::vector<float>& values) {
  if (dtype == Dtype::kF32) {
    return;
  }
  const int64_t count = static_cast<int64_t>(values.size());
  std::vector<uint16_t> rounded(values.size());
  Convert(Dtype::kF32, values.data(), dtype, rounded.data(), count);
  Convert(dtype, rounded.data(), Dtype::kF32, values.data(), count);
}

// The seed and dtype of all parts of a seeded model.
struct Source {
  uint64_t model_seed;
  Dtype dtype;

  std::vector<float> Part(std::string_view part, float stddev, int64_t count) const {
    std::vector<float> values(count);
    FillSeeded(SeedOf(model_seed, part), stddev, values.data(), count);
    RoundTo(dtype, values);
    return values;
  }
};

// Returns the standard deviation of the weights of `in_features` inputs, which keeps the variance
// of the inputs.
float WeightStddev(int64_t in_features) {
  return 1.0f / std::sqrt(static_cast<float>(in_features));
}

constexpr float kBiasStddev = 0.02f;

}  // namespace

void FillSeeded(uint64_t seed, float stddev, float* values, int64_t count) {
  const float factor = stddev / kSumStddev;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = Mix(seed + (static_cast<uint64_t>(i) + 1) * kGoldenGamma);
    const uint64_t sum =
        (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    values[i] = static_cast<float>(static_cast<int32_t>(sum) - kSumMean) * factor;
  }
}

Tensor SeededTensor(uint64_t seed, Dtype dtype, Shape shape) {
  Tensor values(Dtype::kF32, std::move(shape));
  FillSeeded(seed, 1.0f, values.as<float>(), values.num_elements());
  return dtype == Dtype::kF32 ? std::move(values) : values.ConvertedTo(dtype);
}

uint64_t SeedOf(uint64_t model_seed, std::string_view part) {
  uint64_t seed = Mix(model_seed + kGoldenGamma);
  for (const char letter : part) {
    seed = Mix((seed ^ static_cast<unsigned char>(letter)) + kGoldenGamma);
  }
  return seed;
}

SeededLayer MakeSeededLayer(uint64_t model_seed, Dtype dtype, const SeededExtents& extents) {
  const Source source{model_seed, dtype};
  const int64_t d_model = extents.d_model;
  const int64_t query_width = extents.num_heads * extents.head_dim;
  const int64_t key_width = extents.num_kv_heads * extents.head_dim;
  const int64_t value_width = extents.num_kv_heads * extents.value_head_dim;
  const int64_t context_width = extents.num_heads * extents.value_head_dim;
  const float stddev = WeightStddev(d_model);
  return {
      .query = source.Part("query", stddev, query_width * d_model),
      .key = source.Part("key", stddev, key_width * d_model),
      .value = source.Part("value", stddev, value_width * d_model),
      .output = source.Part("output", WeightStddev(context_width), d_model * context_width),
      .query_bias = source.Part("query_bias", kBiasStddev, query_width),
      .key_bias = source.Part("key_bias", kBiasStddev, key_width),
      .value_bias = source.Part("value_bias", kBiasStddev, value_width),
      .output_bias = source.Part("output_bias", kBiasStddev, d_model),
  };
}

std::vector<float> MakeSeededEmbedding(uint64_t model_seed, Dtype dtype, std::string_view part,
                                       int64_t count, int64_t d_model) {
  const float stddev = part == "position_embedding" ? 0.1f : 1.0f;
  return Source{model_seed, dtype}.Part(part, stddev, count * d_model);
}

}  // namespace attention
