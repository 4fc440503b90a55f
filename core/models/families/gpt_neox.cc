// GPT-NeoX and Pythia (Black et al. 2022): attention and feed-forward beside each other, part of
// each head rotated, query, key and value of each head together in one tensor.
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/models/families/blocks.h"
#include "core/models/families/families.h"
#include "core/models/rope_config.h"

namespace attention::families {
namespace {

/// Describes part `part` of the three parts (query, key, value) of each head.
LinearDescription HeadPart(const LinearDescription& packed, int64_t head_dim, int64_t part) {
  LinearDescription linear = PartOf(packed, part * head_dim, packed.out_features / 3);
  linear.run = head_dim;
  linear.run_step = 3 * head_dim;
  return linear;
}

}  // namespace

ModelDescription gpt_neox(ModelConfig& config, const Checkpoint&) {
  const int64_t width = config.Size({"hidden_size"}, 6144);
  const int64_t num_layers = config.NumLayers({"num_hidden_layers"}, 44);
  const int64_t d_hidden = config.Size({"intermediate_size"}, 24576);
  const int64_t max_positions = config.Size({"max_position_embeddings"}, 2048);
  const float epsilon = config.Epsilon({"layer_norm_eps"}, 1e-5);
  const bool is_parallel = config.Flag({"use_parallel_residual"}, true);
  const bool has_bias = config.Flag({"attention_bias"}, true);
  const auto shape = EqualHeads(width, config.Divisor({"num_attention_heads"}, width, 64));
  // Of the rotation only: the heads are as wide as the layer and their number say.
  const int64_t rotated_dim = config.WholeNumber({"head_dim"}, {1, shape.head_dim}, shape.head_dim);
  const std::optional<RotaryDescription> rotary = ReadRope(config, {.head_dim = rotated_dim,
                                                                    .max_positions = max_positions,
                                                                    .theta_key = "rotary_emb_base",
                                                                    .partial_key = "rotary_pct",
                                                                    .default_partial = 0.25,
                                                                    .is_partial_allowed = true});
  ModelDescription model{.prefix = "gpt_neox.", .d_model = width};
  for (int64_t i = 0; i < num_layers; ++i) {
    const std::string block = absl::StrCat("layers.", i, ".");
    const LinearDescription packed =
        Linear(block + "attention.query_key_value", width, 3 * width, has_bias);
    model.stack.sublayers.push_back(
        {.layer = AttentionDescription{.shape = shape,
                                       .query = HeadPart(packed, shape.head_dim, 0),
                                       .key = HeadPart(packed, shape.head_dim, 1),
                                       .value = HeadPart(packed, shape.head_dim, 2),
                                       .output = Linear(block + "attention.dense", width, width,
                                                        has_bias),
                                       .causal = true,
                                       .rotary = rotary},
         .before = LayerNorm(block + "input_layernorm", width, epsilon)});
    model.stack.sublayers.push_back(
        {.layer =
             FeedForwardDescription{
                 .d_hidden = d_hidden,
                 .up = Linear(block + "mlp.dense_h_to_4h", width, d_hidden, true),
                 .down = Linear(block + "mlp.dense_4h_to_h", d_hidden, width, true),
                 .activation = config.ActivationOf({"hidden_act"}, "gelu")},
         .before = LayerNorm(block + "post_attention_layernorm", width, epsilon),
         .is_parallel = is_parallel});
  }
  model.stack.final_norm = LayerNorm("final_layer_norm", width, epsilon);
  model.embedding = {.tokens = "embed_in.weight", .vocab_size = config.Size({"vocab_size"}, 50432)};
  model.head = {.weight = "embed_out.weight",
                .is_tied = config.Flag({"tie_word_embeddings"}, false)};
  model.max_positions = RopeMaxPositions(config, max_positions);
  return model;
}

}  // namespace attention::families
