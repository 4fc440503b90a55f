// The properties of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/kernels/linear/linear_weights.h"
#include "core/layers/layer_call.h"
#include "core/tensor/dtype.h"

namespace attention {

/// The specification of a model of `--random-model`, and of the built-in model: one attention
/// layer, with token and position embeddings when it takes token ids.
struct SeededModelSpec {
  std::string name;
  int64_t version = 1;
  uint64_t seed = 0;
  int64_t d_model = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;    // 0: num_heads
  int64_t head_dim = 0;        // 0: d_model / num_heads
  int64_t value_head_dim = 0;  // 0: head_dim
  int64_t vocab_size = 0;      // 0: takes no token ids
  int64_t max_positions = 0;
  Dtype dtype = Dtype::kF32;
  bool causal = false;
};

/// One attention layer of a model.
struct ModelLayerInfo {
  MultiHeadAttentionShape shape;
  /// Whether the layer is causal by default. A request may override it.
  bool causal = false;
  /// Whether keys and values always come from `memory`.
  bool is_cross = false;
  /// The number of keys that the layer adds behind the keys of each sequence (bias_k,
  /// add_zero_attn). Weights have as many more columns.
  int64_t extra_keys = 0;
  /// The window where a request gives none; 0: all keys.
  int64_t window = 0;

  /// Returns whether the layer always takes `memory`: for cross-attention, or because its keys or
  /// values have another width than its rows.
  bool needs_memory() const { return is_cross || shape.needs_memory(); }
};

struct ModelInfo {
  std::string name;
  int64_t version = 1;
  /// The `model_type` of config.json; "seeded" for generated weights.
  std::string model_type;
  int64_t d_model = 0;
  /// The layers by their numbers in requests: encoder layers first, then the layers of each decoder
  /// block.
  std::vector<ModelLayerInfo> layers;
  /// Whether the model has a stack of blocks. Otherwise it is layer 0 and nothing else.
  bool has_stack = false;
  /// Whether the stack is a decoder that attends to the output of an encoder, whose input is
  /// `memory`.
  bool has_encoder = false;
  /// The size of the vocabulary; 0 when the model takes no token ids.
  int64_t vocab_size = 0;
  int64_t num_token_types = 0;
  /// The longest token sequence, at least 1; nullopt: any length.
  std::optional<int64_t> max_positions = {};
  bool has_logits = false;
  WeightsDtype weights_dtype = WeightsDtype::kF32;
  /// The size of everything that the model keeps, and of its attention and feed-forward layers
  /// alone.
  int64_t weights_bytes = 0;
  int64_t layers_bytes = 0;
  /// The specification of generated weights.
  std::optional<SeededModelSpec> seeded = {};
};

}  // namespace attention
