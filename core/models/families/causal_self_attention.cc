// The CausalSelfAttention module of minGPT and nanoGPT: one layer. Its buffer `bias` is a mask.
#include "core/models/families/blocks.h"
#include "core/models/families/families.h"

namespace attention::families {

ModelDescription causal_self_attention(ModelConfig& config, const Checkpoint&) {
  const int64_t width = config.Size({"n_embd"});
  const auto shape = EqualHeads(width, config.Divisor({"n_head"}, width));
  LinearDescription packed = Linear("c_attn", width, 3 * width, true);
  LinearDescription output = Linear("c_proj", width, width, true);
  packed.is_bias_optional = output.is_bias_optional = true;
  ModelDescription model{.prefix = "attn.", .d_model = width};
  model.stack.sublayers.push_back(
      {.layer = AttentionDescription{.shape = shape,
                                     .query = PartOf(packed, 0, width),
                                     .key = PartOf(packed, width, width),
                                     .value = PartOf(packed, 2 * width, width),
                                     .output = output,
                                     .causal = true}});
  return model;
}

}  // namespace attention::families
