// The description of a model by its family: extents, names and layouts of tensors, and the order of
// the layers. It contains no mathematics: the rest of core/models reads the tensors and runs the
// layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/kernels/attention/options.h"
#include "core/kernels/tile/activation.h"
#include "core/layers/multi_head_attention.h"

namespace attention {

/// A linear map y = x W^T + b, stored as a tensor of the checkpoint or as a part of one.
struct LinearDescription {
  enum class Layout {
    kRows,           // [channels, in_features], as torch.nn.Linear keeps it
    kColumns,        // [in_features, channels], as GPT-2's Conv1D does
    kSharedByHeads,  // [run, run], used for each head's part of the input alone
  };

  std::string weight;
  /// The name of the bias, a tensor [channels]; empty: no bias.
  std::string bias;
  int64_t in_features = 0;
  int64_t out_features = 0;
  Layout layout = Layout::kRows;
  /// The number of output channels of the whole tensor; 0: out_features.
  int64_t channels = 0;
  /// The first channel of this map. The channels of the map come in runs of `run` channels;
  /// `run_step` is the distance from the first channel of a run to that of the next. 0: one run.
  int64_t first_channel = 0;
  int64_t run = 0;
  int64_t run_step = 0;
  /// Whether the weights are a tensor of their own; the channels above then apply to the bias only.
  bool has_own_weight = false;
  /// Whether the checkpoint may lack the bias.
  bool is_bias_optional = false;
};

struct NormDescription {
  std::string weight;
  std::string bias = {};  // empty: none
  int64_t width = 0;
  float epsilon = 0;
  bool is_rms = false;
  /// A number that is added to the weights (Gemma stores them as differences from 1).
  float weight_offset = 0;
};

struct RotaryDescription {
  /// The rotation, with dim > 0. Its `frequencies` are filled in from the members below.
  Rotary rotary;
  std::vector<double> frequencies;
  /// The frequencies for sequences of more than `long_from` tokens; empty: the same (LongRoPE, Ding
  /// et al. 2024).
  std::vector<double> long_frequencies = {};
  int64_t long_from = 0;
  /// The longest sequence for which the frequencies are valid (dynamic scaling); nullopt: any.
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
  /// The names of bias_k and bias_v; empty: none.
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

/// A sublayer x = after(x + output(layer(before(x)))). An absent norm does nothing.
struct SublayerDescription {
  std::variant<AttentionDescription, FeedForwardDescription> layer;
  std::optional<NormDescription> before = {};
  std::optional<NormDescription> output = {};
  std::optional<NormDescription> after = {};
  /// Whether the sublayer reads the same x as the sublayer before it. REQUIRES: `before`.
  bool is_parallel = false;
};

struct StackDescription {
  std::vector<SublayerDescription> sublayers;
  std::optional<NormDescription> final_norm = {};
};

/// The embedding of a token: scale * (token row) + position row + type row, normalised.
struct EmbeddingDescription {
  std::string tokens;  // [vocab_size, d_model]
  int64_t vocab_size = 0;
  float scale = 1;
  std::string positions = {};  // [num_positions, d_model]; empty: none
  int64_t num_positions = 0;
  /// RoBERTa's rule: all tokens but this one are counted from padding_id + 1, and this token stands
  /// at position padding_id. Less than num_positions - 1.
  std::optional<int32_t> padding_id = {};
  std::string types = {};  // [num_types, d_model]; empty: none
  int64_t num_types = 0;
  std::optional<NormDescription> norm = {};
};

/// The head, which computes the logits of the next token.
struct HeadDescription {
  std::string weight;  // [vocab_size, d_model]
  /// Whether the token embeddings replace a missing `weight`.
  bool is_tied = false;
  float softcap = 0;
};

struct ModelDescription {
  /// A prefix that the name of any tensor may have.
  std::string prefix;
  int64_t d_model = 0;
  /// The stack of the model. A stack of one attention layer makes a model without a stack: layer 0
  /// only.
  StackDescription stack;
  /// The encoder. With one, the stack is a decoder that attends to the encoder's output.
  std::optional<StackDescription> encoder = {};
  std::optional<EmbeddingDescription> embedding = {};
  std::optional<HeadDescription> head = {};
  /// The longest sequence for which the position embeddings or the rotations are valid, at least 1;
  /// nullopt: any.
  std::optional<int64_t> max_positions = {};
};

}  // namespace attention
