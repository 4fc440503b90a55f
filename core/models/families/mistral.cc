// Mistral 7B (Jiang et al. 2023): LLaMA with a window in all layers, of 4096 keys unless the
// config gives another number, or null for none.
#include "core/models/families/blocks.h"
#include "core/models/families/families.h"
#include "core/models/families/llama_frame.h"

namespace attention::families {

ModelDescription mistral(ModelConfig& config, const Checkpoint&) {
  ModelDescription model =
      LlamaModel(config, {.d_hidden = 14336, .num_kv_heads = 8, .max_positions = 131072});
  const int64_t window =
      config.IsNull("sliding_window") ? 0 : config.Size({"sliding_window"}, 4096);
  ForEachAttention(model.stack,
                   [&](int64_t, AttentionDescription& attention) { attention.window = window; });
  return model;
}

}  // namespace attention::families
