#include "core/models/families/blocks.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace attention::families {

LinearDescription Linear(const std::string& name, int64_t in_features, int64_t out_features,
                         bool has_bias) {
  return {.weight = name + ".weight",
          .bias = has_bias ? name + ".bias" : "",
          .in_features = in_features,
          .out_features = out_features};
}

LinearDescription PartOf(LinearDescription whole, int64_t first, int64_t out_features) {
  whole.channels = whole.out_features;
  whole.first_channel = first;
  whole.out_features = out_features;
  return whole;
}

NormDescription LayerNorm(const std::string& name, int64_t width, float epsilon) {
  return {.weight = name + ".weight", .bias = name + ".bias", .width = width, .epsilon = epsilon};
}

MultiHeadAttentionShape EqualHeads(int64_t d_model, int64_t num_heads) {
  const int64_t head_dim = d_model / num_heads;
  return {.d_model = d_model,
          .d_memory = d_model,
          .num_heads = num_heads,
          .num_kv_heads = num_heads,
          .head_dim = head_dim,
          .value_head_dim = head_dim};
}

void ForEachAttention(StackDescription& stack,
                      absl::FunctionRef<void(int64_t layer, AttentionDescription&)> change) {
  int64_t layer = 0;
  for (SublayerDescription& sublayer : stack.sublayers) {
    if (auto* attention = std::get_if<AttentionDescription>(&sublayer.layer)) {
      change(layer++, *attention);
    }
  }
}

}  // namespace attention::families
