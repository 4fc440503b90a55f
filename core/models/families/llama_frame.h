// The parts that the families derived from LLaMA (Touvron et al. 2023) share: root-mean-square
// norms in front of rotary attention and of a gated feed-forward layer.
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "core/models/description.h"
#include "core/models/model_config.h"
#include "core/models/rope_config.h"

namespace attention::families {

struct LlamaDefaults {
  int64_t vocab_size = 32000;
  int64_t d_model = 4096;
  int64_t d_hidden = 11008;
  int64_t num_layers = 32;
  int64_t num_heads = 32;
  int64_t num_kv_heads = 0;  // 0: num_heads
  int64_t head_dim = 0;      // 0: d_model / num_heads
  int64_t max_positions = 2048;
  float epsilon = 1e-6f;
  /// Whether there are biases of query, key and value; of the attention's output; of the
  /// feed-forward maps.
  bool has_qkv_bias = false;
  bool has_output_bias = false;
  bool has_mlp_bias = false;
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
  bool is_tied = false;
  RopeRules rope = {};
};

/// Describes blocks of two sublayers each. A family then changes what differs.
ModelDescription LlamaModel(ModelConfig& config, const LlamaDefaults& defaults);

/// Describes the norm of `name`.weight like the other norms of the model.
NormDescription RmsNormOf(const ModelDescription& model, const std::string& name, int64_t width);

/// Sets the window of sliding layers to `window` keys. These are the layers for which `layer_types`
/// says "sliding_attention"; without that key, those for which `is_sliding` returns true.
void SetWindows(ModelConfig& config, int64_t window,
                absl::FunctionRef<bool(int64_t layer)> is_sliding, ModelDescription& model);

/// Sets the windows of Qwen 2 and 3: only with use_sliding_window, from layer max_window_layers on.
void SetQwenWindows(ModelConfig& config, ModelDescription& model);

}  // namespace attention::families
