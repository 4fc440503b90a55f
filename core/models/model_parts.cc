#include "core/models/model_parts.h"

namespace attention {

void CountBytes(ModelParts& parts) {
  size_t total_bytes = 0;
  for (const ModelLayer& layer : parts.layers) {
    total_bytes += layer.attention->size_bytes();
  }
  for (const Stack* stack : {&parts.stack, parts.encoder ? &*parts.encoder : nullptr}) {
    for (size_t i = 0; stack != nullptr && i < stack->sublayers.size(); ++i) {
      const auto& feed_forward = stack->sublayers[i].feed_forward;
      total_bytes += feed_forward == nullptr ? 0 : feed_forward->size_bytes();
    }
  }
  parts.info.layers_bytes = static_cast<int64_t>(total_bytes);
  if (parts.embedding.has_value()) {
    const Embedding& embedding = *parts.embedding;
    total_bytes += embedding.tokens.size_bytes() +
                   (embedding.positions.size() + embedding.types.size()) * sizeof(float);
  }
  total_bytes += parts.head.has_value() ? parts.head->linear.size_bytes() : 0;
  parts.info.weights_bytes = static_cast<int64_t>(total_bytes);
}

}  // namespace attention
