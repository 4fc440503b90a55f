// Gemma 2 (Gemma Team 2024): LLaMA with norms behind each layer too, whose weights are kept as
// differences from 1, softcaps, and windows in every other layer.
#include <cmath>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/models/families/blocks.h"
#include "core/models/families/families.h"
#include "core/models/families/llama_frame.h"

namespace attention::families {
namespace {

/// Returns the softcap of a key; 0: none.
float SoftcapOf(ModelConfig& config, const char* key, double fallback) {
  return config.IsNull(key)
             ? 0.0f
             : static_cast<float>(config.Number({key}, ModelConfig::kScales, fallback));
}

void SetNorms(ModelDescription& model) {
  int64_t layer = 0;
  for (SublayerDescription& sublayer : model.stack.sublayers) {
    const std::string block = absl::StrCat("layers.", layer, ".");
    if (std::holds_alternative<AttentionDescription>(sublayer.layer)) {
      sublayer.before = RmsNormOf(model, block + "input_layernorm", model.d_model);
      sublayer.output = RmsNormOf(model, block + "post_attention_layernorm", model.d_model);
    } else {
      sublayer.before = RmsNormOf(model, block + "pre_feedforward_layernorm", model.d_model);
      sublayer.output = RmsNormOf(model, block + "post_feedforward_layernorm", model.d_model);
      ++layer;
    }
  }
}

}  // namespace

ModelDescription gemma2(ModelConfig& config, const Checkpoint&) {
  const bool has_bias = config.Flag({"attention_bias"}, false);
  config.Expect("use_bidirectional_attention", false);
  ModelDescription model = LlamaModel(config, {.vocab_size = 256000,
                                               .d_model = 2304,
                                               .d_hidden = 9216,
                                               .num_layers = 26,
                                               .num_heads = 8,
                                               .num_kv_heads = 4,
                                               .head_dim = 256,
                                               .max_positions = 8192,
                                               .has_qkv_bias = has_bias,
                                               .has_output_bias = has_bias,
                                               .activation_key = "hidden_activation",
                                               .activation = "gelu_pytorch_tanh",
                                               .is_tied = true});
  model.stack.final_norm->weight_offset = 1;
  SetNorms(model);
  const double scalar = config.Number({"query_pre_attn_scalar"}, ModelConfig::kScales, 256);
  const float softcap = SoftcapOf(config, "attn_logit_softcapping", 50);
  ForEachAttention(model.stack, [&](int64_t, AttentionDescription& attention) {
    attention.scale = static_cast<float>(1 / std::sqrt(scalar));
    attention.softcap = softcap;
  });
  const int64_t window =
      config.IsNull("sliding_window") ? 0 : config.Size({"sliding_window"}, 4096);
  SetWindows(config, window, [&](int64_t layer) { return window > 0 && layer % 2 == 0; }, model);
  model.embedding->scale = std::sqrt(static_cast<float>(model.d_model));
  model.head->softcap = SoftcapOf(config, "final_logit_softcapping", 30);
  return model;
}

}  // namespace attention::families
