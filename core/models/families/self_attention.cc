// A SelfAttention module whose heads share their projections: one layer. Logits are divided by
// sqrt(embed_size).
#include <cmath>

#include "core/models/families/blocks.h"
#include "core/models/families/families.h"

namespace attention::families {

ModelDescription self_attention(ModelConfig& config, const Checkpoint&) {
  const int64_t width = config.Size({"embed_size"});
  const auto shape = EqualHeads(width, config.Divisor({"heads"}, width));
  const auto shared = [&](const char* name) {
    LinearDescription linear = Linear(name, width, width, false);
    linear.layout = LinearDescription::Layout::kSharedByHeads;
    linear.run = shape.head_dim;
    return linear;
  };
  ModelDescription model{.d_model = width};
  model.stack.sublayers.push_back(
      {.layer = AttentionDescription{.shape = shape,
                                     .query = shared("queries"),
                                     .key = shared("keys"),
                                     .value = shared("values"),
                                     .output = Linear("fc_out", width, width, true),
                                     .scale = 1 / std::sqrt(static_cast<float>(width))}});
  return model;
}

}  // namespace attention::families
