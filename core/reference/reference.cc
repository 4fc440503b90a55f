#include "core/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace attention::reference {
namespace {

double Dot(const double* a, const double* b, int64_t size) {
  // Four independent sums: a single one would wait for each addition.
  double sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= size; i += 4) {
    for (int lane = 0; lane < 4; ++lane) {
      sums[lane] += a[i + lane] * b[i + lane];
    }
  }
  double sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  for (; i < size; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

int64_t PositionOf(const Extents& e, const Options& options, int64_t i) {
  return options.query_offset.value_or(e.kv_len - e.query_len) + i;
}

bool IsGlobal(const Options& options, int64_t position) {
  return std::find(options.global_tokens.begin(), options.global_tokens.end(), position) !=
         options.global_tokens.end();
}

// Returns element [h, i, j] of a [num_heads or 1, query_len, kv_len] tensor.
template <typename T>
T ElementOf(const Extents& e, const std::vector<T>& tensor, int64_t h, int64_t i, int64_t j) {
  const bool has_heads = std::ssize(tensor) > e.query_len * e.kv_len;
  return tensor[((has_heads ? h : 0) * e.query_len + i) * e.kv_len + j];
}

int64_t KvHead(const Extents& extents, int64_t head) {
  return head / (extents.num_heads / extents.num_kv_heads);
}

double InverseFrequency(const Rotary& rotary, int64_t dim, int64_t pair) {
  if (!rotary.frequencies.empty()) {
    return rotary.frequencies[pair];
  }
  const double frequency = std::pow(rotary.base, -2.0 * pair / dim);
  if (rotary.scaling == Rotary::Scaling::kLinear) {
    return frequency / rotary.factor;
  }
  if (rotary.scaling == Rotary::Scaling::kLlama3) {
    const double wavelength = 2 * std::numbers::pi / frequency;
    const double smooth = (rotary.original_max_positions / wavelength - rotary.low_freq_factor) /
                          (rotary.high_freq_factor - rotary.low_freq_factor);
    const double kept = std::clamp(smooth, 0.0, 1.0);
    return kept * frequency + (1 - kept) * frequency / rotary.factor;
  }
  return frequency;
}

void Rotate(const Rotary& rotary, int64_t position, int64_t head_dim, double* row) {
  const int64_t dim = rotary.dim == 0 ? head_dim : rotary.dim;
  for (int64_t pair = 0; pair < dim / 2; ++pair) {
    const double angle = static_cast<double>(position + rotary.position_offset) *
                         InverseFrequency(rotary, dim, pair);
    double& a = row[rotary.interleaved ? 2 * pair : pair];
    double& b = row[rotary.interleaved ? 2 * pair + 1 : pair + dim / 2];
    const double cosine = rotary.magnitude * std::cos(angle);
    const double sine = rotary.magnitude * std::sin(angle);
    const double rotated = a * cosine - b * sine;
    b = b * cosine + a * sine;
    a = rotated;
  }
}

void Normalise(const RmsNorm& norm, int64_t head_dim, double* row) {
  const double mean_square = Dot(row, row, head_dim) / head_dim;
  for (int64_t d = 0; d < head_dim; ++d) {
    row[d] *= (norm.weight.empty() ? 1 : norm.weight[d]) / std::sqrt(mean_square + norm.epsilon);
  }
}

double Distance(const double* a, const double* b, int64_t size) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d) {
    sum += (a[d] - b[d]) * (a[d] - b[d]);
  }
  return std::sqrt(sum);
}

double LinearSimilarity(const double* query, const double* key, int64_t size) {
  const auto feature = [](double x) { return x > 0 ? x + 1 : std::exp(x); };
  double sum = 0;
  for (int64_t d = 0; d < size; ++d) {
    sum += feature(query[d]) * feature(key[d]);
  }
  return sum;
}

// Head h, row i and key j.
struct Cell {
  int64_t h, i, j;
};

// Returns the logarithm of the weight of a cell, before normalisation; -infinity for a weight of 0.
double LogWeight(const Extents& e, const Options& o, const double* query, const double* key,
                 const Cell& cell) {
  switch (o.similarity) {
    case Similarity::kGaussian:
      return -std::pow(Distance(query, key, e.head_dim), 2) / o.bandwidth;
    case Similarity::kBox:
      return Distance(query, key, e.head_dim) <= o.bandwidth
                 ? 0
                 : -std::numeric_limits<double>::infinity();
    case Similarity::kTriangular:
      return std::log(std::max(0.0, 1 - Distance(query, key, e.head_dim) / o.bandwidth));
    case Similarity::kLinear:
      return std::log(LinearSimilarity(query, key, e.head_dim));
    case Similarity::kDotProduct:
      break;
  }
  double logit = o.scale.value_or(1.0 / std::sqrt(static_cast<double>(e.head_dim))) *
                 Dot(query, key, e.head_dim);
  if (o.softcap > 0) {
    logit = o.softcap * std::tanh(logit / o.softcap);
  }
  if (!o.alibi_slopes.empty()) {
    logit -=
        o.alibi_slopes[cell.h] * std::abs(static_cast<double>(PositionOf(e, o, cell.i) - cell.j));
  }
  return o.bias.empty() ? logit : logit + ElementOf(e, o.bias, cell.h, cell.i, cell.j);
}

// Computes log_weights[h, i, j] for the keys that row i attends to; -infinity for the others.
void ComputeLogWeights(const Extents& e, const std::vector<double>& query,
                       const std::vector<double>& key, const Options& options,
                       std::vector<double>& log_weights) {
  for (int64_t h = 0; h < e.num_heads; ++h) {
    for (int64_t i = 0; i < e.query_len; ++i) {
      const double* query_row = query.data() + (i * e.num_heads + h) * e.head_dim;
      double* row = log_weights.data() + (h * e.query_len + i) * e.kv_len;
      for (int64_t j = 0; j < e.kv_len; ++j) {
        const double* key_row = key.data() + (j * e.num_kv_heads + KvHead(e, h)) * e.head_dim;
        row[j] = AttendsTo(e, options, h, i, j)
                     ? LogWeight(e, options, query_row, key_row, {h, i, j})
                     : -std::numeric_limits<double>::infinity();
      }
    }
  }
}

// Computes exp and normalises the row, in place. exp(sink) is added to the denominator. Returns the
// logarithm of the sum without the sink. A row of -infinity becomes zeros.
double Softmax(double* row, int64_t kv_len, double sink) {
  const double max =
      kv_len == 0 ? -std::numeric_limits<double>::infinity() : *std::max_element(row, row + kv_len);
  if (max == -std::numeric_limits<double>::infinity()) {
    std::fill(row, row + kv_len, 0.0);
    return max;
  }
  double sum = 0;
  for (int64_t j = 0; j < kv_len; ++j) {
    row[j] = std::exp(row[j] - max);
    sum += row[j];
  }
  for (int64_t j = 0; j < kv_len; ++j) {
    row[j] /= sum + std::exp(sink - max);
  }
  return max + std::log(sum);
}

// output[i, h] = sum over visible j of weights[h, i, j] * value[j, kv head of h]; zeros when all
// weights are zero, whatever the values are.
void ComputeWeightedSums(const Extents& e, const Options& options, const std::vector<double>& value,
                         AttentionResult& result) {
  for (int64_t h = 0; h < e.num_heads; ++h) {
    for (int64_t i = 0; i < e.query_len; ++i) {
      if (result.log_sum_exp[h * e.query_len + i] == -std::numeric_limits<double>::infinity()) {
        continue;
      }
      const double* weights_row = result.weights.data() + (h * e.query_len + i) * e.kv_len;
      double* output_row = result.output.data() + (i * e.num_heads + h) * e.value_head_dim;
      for (int64_t j = 0; j < e.kv_len; ++j) {
        if (!AttendsTo(e, options, h, i, j)) {
          continue;
        }
        const double* value_row =
            value.data() + (j * e.num_kv_heads + KvHead(e, h)) * e.value_head_dim;
        for (int64_t d = 0; d < e.value_head_dim; ++d) {
          output_row[d] += weights_row[j] * value_row[d];
        }
      }
    }
  }
}

// y = x W^T + b: x [rows, in_features], weight [out_features, in_features].
std::vector<double> Linear(const std::vector<double>& x, int64_t in_features,
                           const std::vector<double>& weight, const std::vector<double>& bias) {
  const int64_t rows = static_cast<int64_t>(x.size()) / in_features;
  const int64_t out_features = static_cast<int64_t>(weight.size()) / in_features;
  std::vector<double> y(rows * out_features);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t out = 0; out < out_features; ++out) {
      y[row * out_features + out] =
          Dot(x.data() + row * in_features, weight.data() + out * in_features, in_features) +
          (bias.empty() ? 0 : bias[out]);
    }
  }
  return y;
}

double Norm(const std::vector<double>& values) {
  return std::sqrt(Dot(values.data(), values.data(), values.size()));
}

}  // namespace

bool AttendsTo(const Extents& extents, const Options& options, int64_t head, int64_t row,
               int64_t key) {
  if (!options.mask.empty() && ElementOf(extents, options.mask, head, row, key) == 0) {
    return false;
  }
  const int64_t p = PositionOf(extents, options, row);
  if (key < options.prefix || IsGlobal(options, key) || IsGlobal(options, p)) {
    return true;
  }
  return (!options.causal || key <= p) && (options.window == 0 || key > p - options.window) &&
         (options.window_right == 0 || key <= p + options.window_right) &&
         (options.window_dilation <= 1 || (p - key) % options.window_dilation == 0);
}

std::vector<double> PreparedRows(std::vector<double> rows, int64_t num_heads, int64_t head_dim,
                                 const std::optional<RmsNorm>& norm,
                                 const std::optional<Rotary>& rotary, int64_t first_position) {
  for (int64_t row = 0; row * head_dim < std::ssize(rows); ++row) {
    if (norm.has_value()) {
      Normalise(*norm, head_dim, rows.data() + row * head_dim);
    }
    if (rotary.has_value()) {
      Rotate(*rotary, first_position + row / num_heads, head_dim, rows.data() + row * head_dim);
    }
  }
  return rows;
}

AttentionResult Attention(const Extents& e, const std::vector<double>& query,
                          const std::vector<double>& key, const std::vector<double>& value,
                          const Options& options) {
  AttentionResult result;
  result.output.resize(e.query_len * e.num_heads * e.value_head_dim);
  result.weights.resize(e.num_heads * e.query_len * e.kv_len);
  result.log_sum_exp.resize(e.num_heads * e.query_len);
  ComputeLogWeights(
      e,
      PreparedRows(query, e.num_heads, e.head_dim, options.query_norm, options.rotary,
                   PositionOf(e, options, 0)),
      PreparedRows(key, e.num_kv_heads, e.head_dim, options.key_norm, options.rotary, 0), options,
      result.weights);
  for (int64_t row = 0; row < e.num_heads * e.query_len; ++row) {
    const double sink = options.sinks.empty() ? -std::numeric_limits<double>::infinity()
                                              : options.sinks[row / e.query_len];
    result.log_sum_exp[row] = Softmax(result.weights.data() + row * e.kv_len, e.kv_len, sink);
  }
  ComputeWeightedSums(e, options, value, result);
  return result;
}

AttentionResult MultiHeadAttention(const Layer& layer, const std::vector<double>& hidden_states,
                                   const std::vector<double>& memory, const Options& options) {
  const std::vector<double>& kv_states = memory.empty() ? hidden_states : memory;
  const Extents extents = {
      .query_len = static_cast<int64_t>(hidden_states.size()) / layer.d_model,
      .kv_len = static_cast<int64_t>(kv_states.size()) / layer.d_memory,
      .num_heads = layer.num_heads,
      .num_kv_heads = layer.num_kv_heads,
      .head_dim = layer.head_dim,
      .value_head_dim = layer.value_head_dim,
  };
  AttentionResult result =
      Attention(extents, Linear(hidden_states, layer.d_model, layer.query, layer.query_bias),
                Linear(kv_states, layer.d_memory, layer.key, layer.key_bias),
                Linear(kv_states, layer.d_memory, layer.value, layer.value_bias), options);
  result.output = Linear(result.output, layer.num_heads * layer.value_head_dim, layer.output,
                         layer.output_bias);
  return result;
}

double RelativeL2(const std::vector<double>& actual, const std::vector<double>& expected) {
  std::vector<double> difference(expected.size());
  std::vector<double> finite_expected(expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(expected[i])) {
      continue;
    }
    if (!std::isfinite(actual[i])) {
      return std::numeric_limits<double>::infinity();
    }
    difference[i] = actual[i] - expected[i];
    finite_expected[i] = expected[i];
  }
  const double norm = Norm(finite_expected);
  return norm == 0 ? Norm(difference) : Norm(difference) / norm;
}

}  // namespace attention::reference
