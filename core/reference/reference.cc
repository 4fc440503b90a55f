#include "core/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attention::reference {
namespace {

double Dot(const double* a, const double* b, int64_t size) {
  // Four sums: one alone would wait for each addition in turn.
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

// Keys [0, n) are what row i sees.
int64_t NumVisibleKeys(const Extents& extents, const Options& options, int64_t i) {
  if (!options.causal) {
    return extents.kv_len;
  }
  const int64_t position = options.query_offset.value_or(extents.kv_len - extents.query_len) + i;
  return std::clamp<int64_t>(position + 1, 0, extents.kv_len);
}

int64_t KvHead(const Extents& extents, int64_t head) {
  return head / (extents.num_heads / extents.num_kv_heads);
}

// logits[h, i, j] = scale * query[i, h] . key[j, kv head of h], of visible keys alone.
void ComputeLogits(const Extents& e, const std::vector<double>& query,
                   const std::vector<double>& key, const Options& options,
                   std::vector<double>& logits) {
  const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(e.head_dim)));
  for (int64_t h = 0; h < e.num_heads; ++h) {
    for (int64_t i = 0; i < e.query_len; ++i) {
      const double* query_row = query.data() + (i * e.num_heads + h) * e.head_dim;
      double* logits_row = logits.data() + (h * e.query_len + i) * e.kv_len;
      for (int64_t j = 0; j < NumVisibleKeys(e, options, i); ++j) {
        const double* key_row = key.data() + (j * e.num_kv_heads + KvHead(e, h)) * e.head_dim;
        logits_row[j] = scale * Dot(query_row, key_row, e.head_dim);
      }
    }
  }
}

// In place; hidden keys keep the weight 0.
void Softmax(double* row, int64_t num_visible) {
  if (num_visible == 0) {
    return;
  }
  const double max = *std::max_element(row, row + num_visible);
  double sum = 0;
  for (int64_t j = 0; j < num_visible; ++j) {
    row[j] = std::exp(row[j] - max);
    sum += row[j];
  }
  for (int64_t j = 0; j < num_visible; ++j) {
    row[j] /= sum;
  }
}

// output[i, h] = sum over visible j of weights[h, i, j] * value[j, kv head of h].
void ComputeWeightedSums(const Extents& e, const Options& options, const std::vector<double>& value,
                         AttentionResult& result) {
  for (int64_t h = 0; h < e.num_heads; ++h) {
    for (int64_t i = 0; i < e.query_len; ++i) {
      const double* weights_row = result.weights.data() + (h * e.query_len + i) * e.kv_len;
      double* output_row = result.output.data() + (i * e.num_heads + h) * e.value_head_dim;
      for (int64_t j = 0; j < NumVisibleKeys(e, options, i); ++j) {
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

AttentionResult Attention(const Extents& extents, const std::vector<double>& query,
                          const std::vector<double>& key, const std::vector<double>& value,
                          const Options& options) {
  AttentionResult result;
  result.output.resize(extents.query_len * extents.num_heads * extents.value_head_dim);
  result.weights.resize(extents.num_heads * extents.query_len * extents.kv_len);
  ComputeLogits(extents, query, key, options, result.weights);
  for (int64_t row = 0; row < extents.num_heads * extents.query_len; ++row) {
    Softmax(result.weights.data() + row * extents.kv_len,
            NumVisibleKeys(extents, options, row % extents.query_len));
  }
  ComputeWeightedSums(extents, options, value, result);
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
