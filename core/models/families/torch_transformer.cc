// A saved torch.nn.Transformer: the encoder and decoder of Vaswani et al. 2017.
#include "absl/strings/str_cat.h"
#include "core/models/families/blocks.h"
#include "core/models/families/families.h"
#include "core/models/families/torch_mha.h"

namespace attention::families {
namespace {

struct Transformer {
  MultiHeadAttentionShape shape;
  int64_t d_hidden = 0;
  Activation activation = Activation::kRelu;
  float epsilon = 0;
  bool is_norm_first = false;
  bool has_bias = true;

  NormDescription Norm(const std::string& name) const {
    NormDescription norm = LayerNorm(name, shape.d_model, epsilon);
    norm.bias = has_bias ? norm.bias : "";
    return norm;
  }
  SublayerDescription WithNorm(SublayerDescription sublayer, const std::string& norm) const {
    (is_norm_first ? sublayer.before : sublayer.after) = Norm(norm);
    return sublayer;
  }
  AttentionDescription Attention(const std::string& name) const {
    return TorchAttention({.name = name, .shape = shape, .has_bias = has_bias});
  }
  FeedForwardDescription FeedForward(const std::string& block) const {
    return {.d_hidden = d_hidden,
            .up = Linear(block + "linear1", shape.d_model, d_hidden, has_bias),
            .down = Linear(block + "linear2", d_hidden, shape.d_model, has_bias),
            .activation = activation};
  }
  StackDescription Encoder(int64_t num_layers) const;
  StackDescription Decoder(int64_t num_layers) const;
};

StackDescription Transformer::Encoder(int64_t num_layers) const {
  StackDescription stack{.final_norm = Norm("encoder.norm")};
  for (int64_t i = 0; i < num_layers; ++i) {
    const std::string block = absl::StrCat("encoder.layers.", i, ".");
    stack.sublayers.push_back(
        WithNorm({.layer = Attention(block + "self_attn.")}, block + "norm1"));
    stack.sublayers.push_back(WithNorm({.layer = FeedForward(block)}, block + "norm2"));
  }
  return stack;
}

StackDescription Transformer::Decoder(int64_t num_layers) const {
  StackDescription stack{.final_norm = Norm("decoder.norm")};
  for (int64_t i = 0; i < num_layers; ++i) {
    const std::string block = absl::StrCat("decoder.layers.", i, ".");
    AttentionDescription self = Attention(block + "self_attn.");
    self.causal = true;
    AttentionDescription cross = Attention(block + "multihead_attn.");
    cross.is_cross = true;
    stack.sublayers.push_back(WithNorm({.layer = self}, block + "norm1"));
    stack.sublayers.push_back(WithNorm({.layer = cross}, block + "norm2"));
    stack.sublayers.push_back(WithNorm({.layer = FeedForward(block)}, block + "norm3"));
  }
  return stack;
}

}  // namespace

ModelDescription torch_transformer(ModelConfig& config, const Checkpoint&) {
  const int64_t width = config.Size({"d_model"}, 512);
  const Transformer transformer{.shape = EqualHeads(width, config.Divisor({"nhead"}, width, 8)),
                                .d_hidden = config.Size({"dim_feedforward"}, 2048),
                                .activation = config.ActivationOf({"activation"}, "relu"),
                                .epsilon = config.Epsilon({"layer_norm_eps"}, 1e-5),
                                .is_norm_first = config.Flag({"norm_first"}, false),
                                .has_bias = config.Flag({"bias"}, true)};
  ModelDescription model{.prefix = "transformer.", .d_model = width};
  model.encoder = transformer.Encoder(config.NumLayers({"num_encoder_layers"}, 6));
  model.stack = transformer.Decoder(config.NumLayers({"num_decoder_layers"}, 6));
  return model;
}

}  // namespace attention::families
