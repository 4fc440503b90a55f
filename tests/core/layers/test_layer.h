// Seeded attention layers, and batches for them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/layers/multi_head_attention.h"
#include "core/reference/reference.h"
#include "core/tensor/seeded.h"
#include "tests/support/attention_problem.h"
#include "tests/support/golden.h"

namespace attention {

/// A seeded layer, its packed form and the reference's.
struct TestLayer {
  TestLayer(const MultiHeadAttentionShape& s, WeightsDtype weights_dtype, uint64_t seed = 3)
      : shape(s) {
    const Dtype dtype = weights_dtype == WeightsDtype::kBf16 ? Dtype::kBf16 : Dtype::kF32;
    const auto matrix = [&](std::vector<float>& to, uint64_t part, int64_t out, int64_t in) {
      const Tensor values = SeededTensor(seed * 100 + part, dtype, {out * in});
      for (const double value : ToDoubles(values)) {
        to.push_back(value);
      }
      Scale(to, in > 1 ? 1 / std::sqrt(static_cast<float>(in)) : 0.1f, dtype);
    };
    matrix(weights.query, 0, s.num_heads * s.head_dim, s.d_model);
    matrix(weights.key, 1, s.num_kv_heads * s.head_dim, s.d_memory);
    matrix(weights.value, 2, s.num_kv_heads * s.value_head_dim, s.d_memory);
    matrix(weights.output, 3, s.d_model, s.num_heads * s.value_head_dim);
    matrix(weights.query_bias, 4, s.num_heads * s.head_dim, 1);
    matrix(weights.value_bias, 5, s.num_kv_heads * s.value_head_dim, 1);
    matrix(weights.output_bias, 6, s.d_model, 1);
    layer = *MultiHeadAttention::Create(s,
                                        {.query = Linear(weights.query, &weights.query_bias),
                                         .key = Linear(weights.key, nullptr),
                                         .value = Linear(weights.value, &weights.value_bias),
                                         .output = Linear(weights.output, &weights.output_bias)},
                                        weights_dtype);
  }
  TestLayer(const MultiHeadAttentionShape& s, Dtype dtype)
      : TestLayer(s, dtype == Dtype::kBf16 ? WeightsDtype::kBf16 : WeightsDtype::kF32) {}

  static LinearWeights Linear(const std::vector<float>& matrix, const std::vector<float>* bias) {
    return {.data = matrix.data(), .bias = bias == nullptr ? nullptr : bias->data()};
  }

  static void Scale(std::vector<float>& values, float factor, Dtype dtype) {
    for (float& value : values) {
      value *= factor;
      value = dtype == Dtype::kF32 ? value : ToFloat(ToBf16(value));
    }
  }

  reference::Layer Reference() const {
    const auto doubles = [](const std::vector<float>& v) {
      return std::vector<double>(v.begin(), v.end());
    };
    return {shape.d_model,
            shape.d_memory,
            shape.num_heads,
            shape.num_kv_heads,
            shape.head_dim,
            shape.value_head_dim,
            doubles(weights.query),
            doubles(weights.key),
            doubles(weights.value),
            doubles(weights.output),
            doubles(weights.query_bias),
            {},
            doubles(weights.value_bias),
            doubles(weights.output_bias)};
  }

  MultiHeadAttentionShape shape;
  SeededLayer weights;
  std::unique_ptr<MultiHeadAttention> layer;
};

inline MatrixView View(const Tensor& t) {
  return {t.data(), t.dtype(), t.shape()[0], t.shape()[1], t.shape()[1]};
}

/// A ragged batch of hidden states (and memory), and its answer.
struct Batch {
  Batch(const TestLayer& l, Dtype dtype, std::vector<int64_t> lens, bool causal,
        std::vector<int64_t> memory_lens = {})
      : layer(l), lengths(std::move(lens)), memory_lengths(std::move(memory_lens)) {
    const auto sum = [](const std::vector<int64_t>& v) {
      int64_t total = 0;
      for (const int64_t n : v) {
        total += n;
      }
      return total;
    };
    input = SeededTensor(21, dtype, {sum(lengths), l.shape.d_model});
    memory = SeededTensor(22, dtype, {sum(memory_lengths), l.shape.d_memory});
    output = Tensor(dtype, input.shape());
    int64_t row = 0;
    int64_t memory_row = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const int64_t memory_len = memory_lengths.empty() ? 0 : memory_lengths[i];
      sequences.push_back({.first_row = row,
                           .query_len = lengths[i],
                           .first_memory_row = memory_row,
                           .memory_len = memory_len,
                           .output = {ElementAt(output.data(), dtype, row * l.shape.d_model), dtype,
                                      lengths[i], l.shape.d_model, l.shape.d_model},
                           .options = {.causal = causal && i % 2 == 0}});
      row += lengths[i];
      memory_row += memory_len;
    }
  }

  absl::Status Run(int num_threads, const RowsCallback& on_rows = nullptr,
                   int64_t block_rows = 256) {
    ThreadPool pool(num_threads);
    Workspace workspace(pool);
    return Run(workspace, {.on_rows = on_rows, .block_rows = block_rows});
  }

  struct Listeners {
    RowsCallback on_rows = nullptr;
    int64_t block_rows = 256;
    std::function<bool()> yield = nullptr;
  };
  absl::Status Run(Workspace& workspace, const Listeners& listeners) {
    std::optional<MatrixView> memory_view;
    if (!memory_lengths.empty()) {
      memory_view = View(memory);
    }
    return layer.layer->Run({.hidden_states = View(input),
                             .memory = memory_view,
                             .sequences = sequences,
                             .on_rows = listeners.on_rows,
                             .block_rows = listeners.block_rows,
                             .yield = listeners.yield},
                            workspace);
  }

  std::vector<double> Expected() const {
    std::vector<double> result;
    const std::vector<double> x = ToDoubles(input);
    const std::vector<double> m = ToDoubles(memory);
    for (const LayerSequence& s : sequences) {
      const auto rows = [](const std::vector<double>& v, int64_t first, int64_t count,
                           int64_t width) {
        return std::vector<double>(v.begin() + first * width, v.begin() + (first + count) * width);
      };
      const auto answer = reference::MultiHeadAttention(
          layer.Reference(), rows(x, s.first_row, s.query_len, layer.shape.d_model),
          memory_lengths.empty() ? std::vector<double>{}
                                 : rows(m, s.first_memory_row, s.memory_len, layer.shape.d_memory),
          ReferenceOptions(s.options, {}));
      result.insert(result.end(), answer.output.begin(), answer.output.end());
    }
    return result;
  }

  const TestLayer& layer;
  std::vector<int64_t> lengths;
  std::vector<int64_t> memory_lengths;
  Tensor input, memory, output;
  std::vector<LayerSequence> sequences;
};

}  // namespace attention
