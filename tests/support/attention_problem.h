// Seeded attention problems and their answers by the double-precision reference.
#pragma once

#include <cstdint>
#include <vector>

#include "core/attention/attention.h"
#include "core/reference/reference.h"
#include "core/runtime/workspace.h"
#include "core/tensor/tensor.h"

namespace attention {

/// One sequence's tensors, dense.
struct AttentionProblem {
  /// N(0, 1)-like values from `seed`.
  AttentionProblem(uint64_t seed, Dtype dtype, const reference::Extents& extents,
                   const AttentionOptions& options = {});

  AttentionSequence Sequence();
  std::vector<double> Expected() const;
  std::vector<double> ExpectedWeights() const;

  reference::Extents extents;
  AttentionOptions options;
  Tensor query;   // [query_len, num_heads, head_dim]
  Tensor key;     // [kv_len, num_kv_heads, head_dim]
  Tensor value;   // [kv_len, num_kv_heads, value_head_dim]
  Tensor output;  // [query_len, num_heads, value_head_dim], of the inputs' dtype

 private:
  reference::AttentionResult Reference() const;
};

reference::Options ReferenceOptions(const AttentionOptions& options);

/// Runs one sequence alone and returns its output.
std::vector<double> RunAlone(AttentionProblem& problem, int num_threads = 1);

/// The tensor's bytes.
std::vector<uint8_t> Bytes(const Tensor& tensor);

}  // namespace attention
