// LLaMA 1 to 3 (Touvron et al. 2023): LlamaModel, LlamaForCausalLM.
#include "core/models/families/families.h"
#include "core/models/families/llama_frame.h"

namespace attention::families {

ModelDescription llama(ModelConfig& config, const Checkpoint&) {
  const bool has_bias = config.Flag({"attention_bias"}, false);
  return LlamaModel(config, {.has_qkv_bias = has_bias,
                             .has_output_bias = has_bias,
                             .has_mlp_bias = config.Flag({"mlp_bias"}, false)});
}

}  // namespace attention::families
