// What a family of checkpoints says of a model: extents, names and layouts of tensors, and the
// order of the layers. No maths: the rest of core/models reads the tensors and runs the layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/kernels/tile/tile_kernels.h"
#include "core/kernels/variants.h"
#include "core/layers/multi_head_attention.h"

namespace attention {

/// y = x W^T + b, as a tensor of the checkpoint or a part of one.
struct LinearDescription {
  enum class Layout {
    kRows,           // [channels, in_features], as torch.nn.Linear keeps it
    kColumns,        // [in_features, channels], as GPT-2's Conv1D does
    kSharedByHeads,  // [run, run], used for each head's part of the input alone
  };

  std::string weight;
  /// [channels], or empty: none.
  std::string bias;
  int64_t in_features = 0;
  int64_t out_features = 0;
  Layout layout = Layout::kRows;
  /// Output channels of the whole tensor; 0: out_features.
  int64_t channels = 0;
  /// The first of them that is this map's. They come in runs of `run`, `run_step` from one run's
  /// first channel to the next's; 0: one run.
  int64_t first_channel = 0;
  int64_t run = 0;
  int64_t run_step = 0;
  /// What is said of channels is said of the bias; the weights are a tensor of their own.
  bool has_own_weight = false;
  /// A checkpoint without the bias is fine.
  bool is_bias_optional = false;
};

struct NormDescription {
  std::string weight;
  std::string bias = {};  // empty: none
  int64_t width = 0;
  float epsilon = 0;
  bool is_rms = false;
  /// Added to the weights (Gemma keeps them as differences from 1).
  float weight_offset = 0;
};

struct RotaryDescription {
  /// dim > 0; `frequencies` is filled in from below.
  Rotary rotary;
  std::vector<double> frequencies;
  /// Of sequences of more than `long_from` tokens, where not empty (LongRoPE, Ding et al. 2024).
  std::vector<double> long_frequencies = {};
  int64_t long_from = 0;
  /// Longest sequence that the frequencies stand for (dynamic scaling); nullopt: any.
  std::optional<int64_t> max_positions = {};
};

struct AttentionDescription {
  MultiHeadAttentionShape shape;
  LinearDescription query, key, value, output;
  bool causal = false;
  bool is_cross = false;
  std::optional<float> scale = {};
  float softcap = 0;
  int64_t window = 0;
  std::optional<RotaryDescription> rotary = {};
  std::optional<NormDescription> query_norm = {};
  std::optional<NormDescription> key_norm = {};
  /// Names of bias_k and bias_v; empty: none.
  std::string extra_key = {};
  std::string extra_value = {};
  bool has_zero_key = false;
};

struct FeedForwardDescription {
  int64_t d_hidden = 0;
  LinearDescription up;
  std::optional<LinearDescription> gate = {};
  LinearDescription down;
  Activation activation = Activation::kGelu;
};

/// x = after(x + output(layer(before(x)))), each norm where it is.
struct SublayerDescription {
  std::variant<AttentionDescription, FeedForwardDescription> layer;
  std::optional<NormDescription> before = {};
  std::optional<NormDescription> output = {};
  std::optional<NormDescription> after = {};
  /// Reads the x that the sublayer in front of it read. REQUIRES: `before`.
  bool is_parallel = false;
};

struct StackDescription {
  std::vector<SublayerDescription> sublayers;
  std::optional<NormDescription> final_norm = {};
};

/// scale * (token row) + position row + type row, normalised.
struct EmbeddingDescription {
  std::string tokens;  // [vocab_size, d_model]
  int64_t vocab_size = 0;
  float scale = 1;
  std::string positions = {};  // [num_positions, d_model]; empty: none
  int64_t num_positions = 0;
  /// RoBERTa's rule: the tokens that are not this one are counted from padding_id + 1, and it
  /// stands at its own number itself. Less than num_positions - 1.
  std::optional<int32_t> padding_id = {};
  std::string types = {};  // [num_types, d_model]; empty: none
  int64_t num_types = 0;
  std::optional<NormDescription> norm = {};
};

/// Logits of the next token.
struct HeadDescription {
  std::string weight;  // [vocab_size, d_model]
  /// The token embeddings stand in where the checkpoint has no `weight`.
  bool is_tied = false;
  float softcap = 0;
};

struct ModelDescription {
  /// May stand before the name of any tensor.
  std::string prefix;
  int64_t d_model = 0;
  /// A stack of one attention is a model that is one layer.
  StackDescription stack;
  /// The stack is a decoder, which attends over this one's output.
  std::optional<StackDescription> encoder = {};
  std::optional<EmbeddingDescription> embedding = {};
  std::optional<HeadDescription> head = {};
  /// Longest sequence that the position embeddings or the rotations stand for, at least 1;
  /// nullopt: any.
  std::optional<int64_t> max_positions = {};
};

}  // namespace attention
