// Mistral 7B (Jiang et al. 2023) and Ministral: LLaMA with a window of 4096 keys unless the config
// gives another number, or null for none. It is in all layers, or in those that `layer_types` names
// (transformers takes a "mistral" with that key for a "ministral").
#include "core/models/families/families.h"
#include "core/models/families/llama_frame.h"

namespace attention::families {

ModelDescription mistral(ModelConfig& config, const Checkpoint&) {
  ModelDescription model =
      LlamaModel(config, {.d_hidden = 14336, .num_kv_heads = 8, .max_positions = 131072});
  const int64_t window =
      config.IsNull("sliding_window") ? 0 : config.Size({"sliding_window"}, 4096);
  SetWindows(config, window, [&](int64_t) { return window > 0; }, model);
  return model;
}

}  // namespace attention::families
