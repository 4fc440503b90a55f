// A saved torch.nn.MultiheadAttention: one layer.
#include "core/models/families/torch_mha.h"

#include "core/models/families/blocks.h"
#include "core/models/families/families.h"

namespace attention::families {

AttentionDescription TorchAttention(const TorchMha& mha) {
  const MultiHeadAttentionShape& shape = mha.shape;
  const int64_t width = shape.d_model;
  const bool is_packed = shape.d_memory == width && !shape.has_memory_values();
  LinearDescription packed{.weight = mha.name + "in_proj_weight",
                           .bias = mha.has_bias ? mha.name + "in_proj_bias" : "",
                           .in_features = width,
                           .out_features = 3 * width};
  AttentionDescription attention{
      .shape = shape,
      .query = PartOf(packed, 0, width),
      .key = PartOf(packed, width, width),
      .value = PartOf(packed, 2 * width, width),
      .output = Linear(mha.name + "out_proj", width, width, mha.has_bias)};
  if (!is_packed) {
    // The three biases are one tensor also when the weights are three.
    const auto separate = [&](const char* name, int64_t in_features, LinearDescription& part) {
      part.weight = mha.name + name;
      part.in_features = in_features;
      part.has_own_weight = true;
    };
    separate("q_proj_weight", width, attention.query);
    separate("k_proj_weight", shape.d_memory, attention.key);
    separate("v_proj_weight", shape.has_memory_values() ? shape.d_memory_value : shape.d_memory,
             attention.value);
  }
  return attention;
}

ModelDescription torch_mha(ModelConfig& config, const Checkpoint& checkpoint) {
  const int64_t width = config.Size({"embed_dim"});
  TorchMha mha{.shape = EqualHeads(width, config.Divisor({"num_heads"}, width)),
               .has_bias = config.Flag(
                   {"bias"}, checkpoint.Has("in_proj_bias") || checkpoint.Has("out_proj.bias"))};
  // Without these keys in the config, the tensors give the widths.
  const auto width_of = [&](const char* key, const char* tensor) {
    const Shape shape = checkpoint.ShapeOf(tensor);
    return config.Size({key}, shape.size() == 2 && shape[1] > 0 ? shape[1] : width);
  };
  mha.shape.d_memory = width_of("kdim", "k_proj_weight");
  mha.shape.d_memory_value = width_of("vdim", "v_proj_weight");
  AttentionDescription attention = TorchAttention(mha);
  if (config.Flag({"add_bias_kv"}, checkpoint.Has("bias_k"))) {
    attention.extra_key = "bias_k";
    attention.extra_value = "bias_v";
  }
  attention.has_zero_key = config.Flag({"add_zero_attn"}, false);
  ModelDescription model{.d_model = width};
  model.stack.sublayers.push_back({.layer = attention});
  return model;
}

}  // namespace attention::families
