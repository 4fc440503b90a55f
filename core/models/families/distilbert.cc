// DistilBERT (Sanh et al. 2019): BERT without token types, under other names.
#include "core/models/families/blocks.h"
#include "core/models/families/encoder_frame.h"
#include "core/models/families/families.h"

namespace attention::families {

ModelDescription distilbert(ModelConfig& config, const Checkpoint&) {
  constexpr float kEpsilon = 1e-12f;
  const EncoderNames names{.blocks = "transformer.layer.",
                           .query = "attention.q_lin",
                           .key = "attention.k_lin",
                           .value = "attention.v_lin",
                           .output = "attention.out_lin",
                           .attention_norm = "sa_layer_norm",
                           .up = "ffn.lin1",
                           .down = "ffn.lin2",
                           .output_norm = "output_layer_norm"};
  // Of two names, the one that all families share counts.
  const int64_t width = config.Size({"hidden_size", "dim"}, 768);
  const EncoderExtents extents{
      .d_model = width,
      .num_layers = config.NumLayers({"num_hidden_layers", "n_layers"}, 6),
      .num_heads = config.Divisor({"num_attention_heads", "n_heads"}, width, 12),
      .d_hidden = config.Size({"hidden_dim"}, 3072),
      .epsilon = kEpsilon,
      .activation = config.ActivationOf({"activation"}, "gelu")};
  ModelDescription model{.prefix = "distilbert.", .d_model = extents.d_model};
  model.stack = EncoderStack(names, extents);
  model.embedding = {.tokens = "embeddings.word_embeddings.weight",
                     .vocab_size = config.Size({"vocab_size"}, 30522),
                     .positions = "embeddings.position_embeddings.weight",
                     .num_positions = config.Size({"max_position_embeddings"}, 512),
                     .norm = LayerNorm("embeddings.LayerNorm", extents.d_model, kEpsilon)};
  model.max_positions = model.embedding->num_positions;
  return model;
}

}  // namespace attention::families
