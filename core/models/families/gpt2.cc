// GPT-2 (Radford et al. 2019): GPT2Model, GPT2LMHeadModel.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/models/families/blocks.h"
#include "core/models/families/families.h"

namespace attention::families {
namespace {

LinearDescription Conv1d(const std::string& name, int64_t in_features, int64_t out_features) {
  LinearDescription linear = Linear(name, in_features, out_features, true);
  linear.layout = LinearDescription::Layout::kColumns;
  return linear;
}

}  // namespace

ModelDescription gpt2(ModelConfig& config, const Checkpoint&) {
  // Of two names, the one that all families share counts.
  const int64_t width = config.Size({"hidden_size", "n_embd"}, 768);
  const int64_t num_layers = config.NumLayers({"num_hidden_layers", "n_layer"}, 12);
  const int64_t d_hidden = config.Size({"n_inner"}, 4 * width);
  const float epsilon = config.Epsilon({"layer_norm_epsilon"}, 1e-5);
  const auto shape =
      EqualHeads(width, config.Divisor({"num_attention_heads", "n_head"}, width, 12));
  const bool is_scaled = config.Flag({"scale_attn_weights"}, true);
  const bool is_scaled_by_layer = config.Flag({"scale_attn_by_inverse_layer_idx"}, false);
  config.Expect("add_cross_attention", false);

  ModelDescription model{.prefix = "transformer.", .d_model = width};
  for (int64_t i = 0; i < num_layers; ++i) {
    const std::string block = absl::StrCat("h.", i, ".");
    const LinearDescription packed = Conv1d(block + "attn.c_attn", width, 3 * width);
    const double scale = (is_scaled ? 1 / std::sqrt(static_cast<double>(shape.head_dim)) : 1) /
                         static_cast<double>(is_scaled_by_layer ? i + 1 : 1);
    model.stack.sublayers.push_back(
        {.layer = AttentionDescription{.shape = shape,
                                       .query = PartOf(packed, 0, width),
                                       .key = PartOf(packed, width, width),
                                       .value = PartOf(packed, 2 * width, width),
                                       .output = Conv1d(block + "attn.c_proj", width, width),
                                       .causal = true,
                                       .scale = static_cast<float>(scale)},
         .before = LayerNorm(block + "ln_1", width, epsilon)});
    model.stack.sublayers.push_back(
        {.layer = FeedForwardDescription{.d_hidden = d_hidden,
                                         .up = Conv1d(block + "mlp.c_fc", width, d_hidden),
                                         .down = Conv1d(block + "mlp.c_proj", d_hidden, width),
                                         .activation = config.ActivationOf({"activation_function"},
                                                                           "gelu_new")},
         .before = LayerNorm(block + "ln_2", width, epsilon)});
  }
  model.stack.final_norm = LayerNorm("ln_f", width, epsilon);
  model.embedding = {
      .tokens = "wte.weight",
      .vocab_size = config.Size({"vocab_size"}, 50257),
      .positions = "wpe.weight",
      .num_positions = config.Size({"max_position_embeddings", "n_positions"}, 1024)};
  model.max_positions = model.embedding->num_positions;
  model.head = {.weight = "lm_head.weight", .is_tied = config.Flag({"tie_word_embeddings"}, true)};
  return model;
}

}  // namespace attention::families
