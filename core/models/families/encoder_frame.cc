#include "core/models/families/encoder_frame.h"

#include "absl/strings/str_cat.h"
#include "core/models/families/blocks.h"

namespace attention::families {

StackDescription EncoderStack(const EncoderNames& names, const EncoderExtents& extents) {
  const int64_t width = extents.d_model;
  const auto shape = EqualHeads(width, extents.num_heads);
  StackDescription stack;
  for (int64_t i = 0; i < extents.num_layers; ++i) {
    const std::string block = absl::StrCat(names.blocks, i, ".");
    const auto square = [&](const std::string& name) {
      return Linear(block + name, width, width, true);
    };
    stack.sublayers.push_back(
        {.layer = AttentionDescription{.shape = shape,
                                       .query = square(names.query),
                                       .key = square(names.key),
                                       .value = square(names.value),
                                       .output = square(names.output),
                                       .causal = extents.causal},
         .after = LayerNorm(block + names.attention_norm, width, extents.epsilon)});
    stack.sublayers.push_back(
        {.layer =
             FeedForwardDescription{
                 .d_hidden = extents.d_hidden,
                 .up = Linear(block + names.up, width, extents.d_hidden, true),
                 .down = Linear(block + names.down, extents.d_hidden, width, true),
                 .activation = extents.activation},
         .after = LayerNorm(block + names.output_norm, width, extents.epsilon)});
  }
  return stack;
}

ModelDescription BertModel(ModelConfig& config, const BertDefaults& defaults) {
  const EncoderNames names{.blocks = "encoder.layer.",
                           .query = "attention.self.query",
                           .key = "attention.self.key",
                           .value = "attention.self.value",
                           .output = "attention.output.dense",
                           .attention_norm = "attention.output.LayerNorm",
                           .up = "intermediate.dense",
                           .down = "output.dense",
                           .output_norm = "output.LayerNorm"};
  const int64_t width = config.Size({"hidden_size"}, 768);
  const EncoderExtents extents{.d_model = width,
                               .num_layers = config.NumLayers({"num_hidden_layers"}, 12),
                               .num_heads = config.Divisor({"num_attention_heads"}, width, 12),
                               .d_hidden = config.Size({"intermediate_size"}, 3072),
                               .epsilon = config.Epsilon({"layer_norm_eps"}, 1e-12),
                               .activation = config.ActivationOf({"hidden_act"}, "gelu"),
                               .causal = config.Flag({"is_decoder"}, false)};
  config.Expect("add_cross_attention", false);
  const std::string positions = config.Text({"position_embedding_type"}, "absolute");
  if (positions != "absolute") {
    config.Refuse("position_embedding_type", "\"absolute\"", absl::StrCat("\"", positions, "\""));
  }
  ModelDescription model{.prefix = defaults.prefix, .d_model = extents.d_model};
  model.stack = EncoderStack(names, extents);
  model.embedding = {.tokens = "embeddings.word_embeddings.weight",
                     .vocab_size = config.Size({"vocab_size"}, defaults.vocab_size),
                     .positions = "embeddings.position_embeddings.weight",
                     .num_positions = config.Size({"max_position_embeddings"}, 512),
                     .types = "embeddings.token_type_embeddings.weight",
                     .num_types = config.Size({"type_vocab_size"}, 2),
                     .norm = LayerNorm("embeddings.LayerNorm", extents.d_model, extents.epsilon)};
  model.max_positions = model.embedding->num_positions;
  if (defaults.padding_id.has_value()) {
    // At least one position must remain after that of the padding.
    const int64_t id = config.WholeNumber({"pad_token_id"}, {0, model.embedding->num_positions - 2},
                                          defaults.padding_id);
    model.embedding->padding_id = static_cast<int32_t>(id);
    model.max_positions = model.embedding->num_positions - id - 1;
  }
  return model;
}

}  // namespace attention::families
