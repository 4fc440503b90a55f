// Seeded attention problems and their answers by the double-precision reference.
#pragma once

#include <cstdint>
#include <vector>

#include "core/attention/attention.h"
#include "core/reference/reference.h"
#include "core/runtime/workspace.h"
#include "core/tensor/tensor.h"

namespace attention {

/// Options that need memory of their own, filled with seeded values.
struct Extras {
  bool bias = false;         // of every head
  bool shared_bias = false;  // one for all heads
  bool mask = false;         // of every head, about three keys of four are visible
  bool alibi = false;        // the standard slopes 2^(-8 (h + 1) / num_heads)
  bool sinks = false;
  bool query_norm = false;
  bool key_norm = false;
  std::vector<int64_t> global_tokens = {};
};

/// One sequence's tensors, dense. Options borrow from it.
struct AttentionProblem {
  /// N(0, 1)-like values from `seed`.
  AttentionProblem(uint64_t seed, Dtype dtype, const reference::Extents& extents,
                   const AttentionOptions& options = {});

  AttentionProblem(const AttentionProblem&) = delete;
  AttentionProblem& operator=(const AttentionProblem&) = delete;

  void Add(const Extras& extras);

  AttentionSequence Sequence();
  reference::AttentionResult Reference() const;
  std::vector<double> Expected() const;
  std::vector<double> ExpectedWeights() const;

  reference::Extents extents;
  AttentionOptions options;
  Tensor query;   // [query_len, num_heads, head_dim]
  Tensor key;     // [kv_len, num_kv_heads, head_dim]
  Tensor value;   // [kv_len, num_kv_heads, value_head_dim]
  Tensor output;  // [query_len, num_heads, value_head_dim], of the inputs' dtype

 private:
  uint64_t seed_;
  Tensor bias_, alibi_, sinks_, query_norm_, key_norm_;
  std::vector<uint8_t> mask_;
  std::vector<int64_t> global_tokens_;
};

/// What the options mean to the reference, for a sequence of these extents with dense biases and
/// masks.
reference::Options ReferenceOptions(const AttentionOptions& options,
                                    const reference::Extents& extents);

/// Runs one sequence alone and returns its output.
std::vector<double> RunAlone(AttentionProblem& problem, int num_threads = 1);

/// The tensor's bytes.
std::vector<uint8_t> Bytes(const Tensor& tensor);

}  // namespace attention
