#include "core/models/families/llama_frame.h"

#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/models/families/blocks.h"

namespace attention::families {
namespace {

MultiHeadAttentionShape ShapeOf(ModelConfig& config, const LlamaDefaults& defaults) {
  const int64_t width = config.Size({"hidden_size"}, defaults.d_model);
  const int64_t num_heads = config.Size({"num_attention_heads"}, defaults.num_heads);
  const bool is_like_heads = defaults.num_kv_heads == 0 || config.IsNull("num_key_value_heads");
  const int64_t num_kv_heads = config.Divisor({"num_key_value_heads"}, num_heads,
                                              is_like_heads ? num_heads : defaults.num_kv_heads);
  int64_t head_dim = defaults.head_dim;
  if (config.Has("head_dim") || head_dim > 0) {
    head_dim = config.Size({"head_dim"}, head_dim);
  } else {
    head_dim = width / config.Divisor({"num_attention_heads"}, width, num_heads);
  }
  return {.d_model = width,
          .d_memory = width,
          .num_heads = num_heads,
          .num_kv_heads = num_kv_heads,
          .head_dim = head_dim,
          .value_head_dim = head_dim};
}

AttentionDescription AttentionOf(const std::string& name, const MultiHeadAttentionShape& shape,
                                 const LlamaDefaults& defaults) {
  const int64_t kv_width = shape.num_kv_heads * shape.head_dim;
  const int64_t query_width = shape.num_heads * shape.head_dim;
  const bool has_bias = defaults.has_qkv_bias;
  return {.shape = shape,
          .query = Linear(name + "q_proj", shape.d_model, query_width, has_bias),
          .key = Linear(name + "k_proj", shape.d_model, kv_width, has_bias),
          .value = Linear(name + "v_proj", shape.d_model, kv_width, has_bias),
          .output = Linear(name + "o_proj", query_width, shape.d_model, defaults.has_output_bias),
          .causal = true};
}

FeedForwardDescription FeedForwardOf(const std::string& name, int64_t width, int64_t d_hidden,
                                     bool has_bias) {
  return {.d_hidden = d_hidden,
          .up = Linear(name + "up_proj", width, d_hidden, has_bias),
          .gate = Linear(name + "gate_proj", width, d_hidden, has_bias),
          .down = Linear(name + "down_proj", d_hidden, width, has_bias)};
}

}  // namespace

ModelDescription LlamaModel(ModelConfig& config, const LlamaDefaults& defaults) {
  const MultiHeadAttentionShape shape = ShapeOf(config, defaults);
  const int64_t width = shape.d_model;
  const int64_t num_layers = config.NumLayers({"num_hidden_layers"}, defaults.num_layers);
  const int64_t d_hidden = config.Size({"intermediate_size"}, defaults.d_hidden);
  const int64_t max_positions = config.Size({"max_position_embeddings"}, defaults.max_positions);
  const Activation activation = config.ActivationOf({defaults.activation_key}, defaults.activation);
  RopeRules rules = defaults.rope;
  rules.head_dim = shape.head_dim;
  rules.max_positions = max_positions;
  const std::optional<RotaryDescription> rotary = ReadRope(config, rules);

  ModelDescription model{.prefix = "model.", .d_model = width};
  model.stack.final_norm = {.weight = "norm.weight",
                            .width = width,
                            .epsilon = config.Epsilon({"rms_norm_eps"}, defaults.epsilon),
                            .is_rms = true};
  for (int64_t i = 0; i < num_layers; ++i) {
    const std::string block = absl::StrCat("layers.", i, ".");
    AttentionDescription attention = AttentionOf(block + "self_attn.", shape, defaults);
    attention.rotary = rotary;
    model.stack.sublayers.push_back(
        {.layer = attention, .before = RmsNormOf(model, block + "input_layernorm", width)});
    FeedForwardDescription feed_forward =
        FeedForwardOf(block + "mlp.", width, d_hidden, defaults.has_mlp_bias);
    feed_forward.activation = activation;
    model.stack.sublayers.push_back(
        {.layer = feed_forward,
         .before = RmsNormOf(model, block + "post_attention_layernorm", width)});
  }
  model.embedding = {.tokens = "embed_tokens.weight",
                     .vocab_size = config.Size({"vocab_size"}, defaults.vocab_size)};
  model.head = {.weight = "lm_head.weight",
                .is_tied = config.Flag({"tie_word_embeddings"}, defaults.is_tied)};
  model.max_positions = RopeMaxPositions(config, max_positions);
  return model;
}

NormDescription RmsNormOf(const ModelDescription& model, const std::string& name, int64_t width) {
  NormDescription norm = *model.stack.final_norm;
  norm.weight = name + ".weight";
  norm.width = width;
  return norm;
}

void SetWindows(ModelConfig& config, int64_t window,
                absl::FunctionRef<bool(int64_t layer)> is_sliding, ModelDescription& model) {
  const std::vector<std::string> types = config.Texts("layer_types");
  const bool has_types = config.Has("layer_types");
  ForEachAttention(model.stack, [&](int64_t layer, AttentionDescription& attention) {
    bool slides = !has_types && is_sliding(layer);
    if (has_types) {
      const std::string type = layer < std::ssize(types) ? types[layer] : "none";
      slides = type == "sliding_attention";
      if (!slides && type != "full_attention") {
        config.Refuse(absl::StrCat("layer_types[", layer, "]"),
                      "full_attention or sliding_attention", type);
      }
    }
    if (slides && window == 0) {
      config.Refuse("layer_types", "no sliding_attention without a sliding window",
                    absl::StrCat("one for layer ", layer));
    }
    attention.window = slides ? window : 0;
  });
}

void SetQwenWindows(ModelConfig& config, ModelDescription& model) {
  const bool is_used = config.Flag({"use_sliding_window"}, false);
  const int64_t window =
      is_used && !config.IsNull("sliding_window") ? config.Size({"sliding_window"}, 4096) : 0;
  const int64_t first = config.Count({"max_window_layers"}, 28);
  SetWindows(config, window, [&](int64_t layer) { return window > 0 && layer >= first; }, model);
}

}  // namespace attention::families
