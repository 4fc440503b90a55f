// The parts of a model. Internal to core/models.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/kernels/linear/linear.h"
#include "core/kernels/linear/norm.h"
#include "core/layers/feed_forward.h"
#include "core/layers/multi_head_attention.h"
#include "core/models/description.h"
#include "core/models/model_info.h"
#include "core/tokenizer/tokenizer.h"

namespace attention {

/// One attention layer and its options.
struct ModelLayer {
  std::unique_ptr<MultiHeadAttention> attention;
  bool causal = false;
  std::optional<float> scale = {};
  float softcap = 0;
  std::optional<RotaryDescription> rotary = {};
  std::optional<Norm> query_norm = {};
  std::optional<Norm> key_norm = {};
};

/// A sublayer x = after(x + output(layer(before(x)))).
struct Sublayer {
  /// The index of the attention layer; -1: a feed-forward layer.
  int64_t attention = -1;
  std::unique_ptr<FeedForward> feed_forward = nullptr;
  bool is_cross = false;
  bool is_parallel = false;
  std::optional<Norm> before = {};
  std::optional<Norm> output = {};
  std::optional<Norm> after = {};
};

struct Stack {
  std::vector<Sublayer> sublayers;
  std::optional<Norm> final_norm = {};
};

/// The embedding tables. Token rows are kept as f32 or bf16; with a tied head they are the channels
/// of the head.
struct Embedding {
  Dtype dtype = Dtype::kF32;
  MappedBuffer tokens = {};  // [vocab_size, d_model]; empty when tied
  float scale = 1;
  std::vector<float> positions = {};  // [num_positions, d_model], or empty
  std::optional<int32_t> padding_id = {};
  std::vector<float> types = {};  // [num_types, d_model], or empty
  std::optional<Norm> norm = {};
};

struct Head {
  PackedLinear linear;
  float softcap = 0;
};

struct ModelParts {
  ModelInfo info;
  std::vector<ModelLayer> layers;
  Stack stack;
  std::optional<Stack> encoder;
  std::optional<Embedding> embedding;
  std::optional<Head> head;
  std::unique_ptr<const Tokenizer> tokenizer;
};

/// Sets info.weights_bytes and info.layers_bytes.
void CountBytes(ModelParts& parts);

}  // namespace attention
