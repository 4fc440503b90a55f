// Qwen3 (Yang et al. 2025): LLaMA with norms of each head's query and key, before they are rotated.
#include "absl/strings/str_cat.h"
#include "core/models/families/blocks.h"
#include "core/models/families/families.h"
#include "core/models/families/llama_frame.h"

namespace attention::families {

ModelDescription qwen3(ModelConfig& config, const Checkpoint&) {
  const bool has_bias = config.Flag({"attention_bias"}, false);
  ModelDescription model = LlamaModel(config, {.vocab_size = 151936,
                                               .d_hidden = 22016,
                                               .num_kv_heads = 32,
                                               .head_dim = 128,
                                               .max_positions = 32768,
                                               .has_qkv_bias = has_bias,
                                               .has_output_bias = has_bias});
  ForEachAttention(model.stack, [&](int64_t layer, AttentionDescription& attention) {
    const std::string name = absl::StrCat("layers.", layer, ".self_attn.");
    attention.query_norm = RmsNormOf(model, name + "q_norm", attention.shape.head_dim);
    attention.key_norm = RmsNormOf(model, name + "k_norm", attention.shape.head_dim);
  });
  SetQwenWindows(config, model);
  return model;
}

}  // namespace attention::families
