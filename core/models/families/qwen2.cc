// Qwen2 and Qwen2.5 (Yang et al. 2024): LLaMA with biases of query, key and value.
#include "core/models/families/families.h"
#include "core/models/families/llama_frame.h"

namespace attention::families {

ModelDescription qwen2(ModelConfig& config, const Checkpoint&) {
  ModelDescription model = LlamaModel(config, {.vocab_size = 151936,
                                               .d_hidden = 22016,
                                               .num_kv_heads = 32,
                                               .max_positions = 32768,
                                               .has_qkv_bias = true});
  SetQwenWindows(config, model);
  return model;
}

}  // namespace attention::families
