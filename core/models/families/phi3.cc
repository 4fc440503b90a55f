// Phi-3 (Abdin et al. 2024): LLaMA with query, key and value in one tensor, gate and up in another,
// part of each head rotated, and LongRoPE.
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/models/families/blocks.h"
#include "core/models/families/families.h"
#include "core/models/families/llama_frame.h"

namespace attention::families {
namespace {

void UsePackedAttention(const std::string& block, AttentionDescription& attention) {
  const MultiHeadAttentionShape& shape = attention.shape;
  const int64_t query_width = shape.num_heads * shape.head_dim;
  const int64_t kv_width = shape.num_kv_heads * shape.head_dim;
  const LinearDescription packed =
      Linear(block + "self_attn.qkv_proj", shape.d_model, query_width + 2 * kv_width, false);
  attention.query = PartOf(packed, 0, query_width);
  attention.key = PartOf(packed, query_width, kv_width);
  attention.value = PartOf(packed, query_width + kv_width, kv_width);
}

void UsePackedFeedForward(const std::string& block, FeedForwardDescription& feed_forward) {
  const int64_t width = feed_forward.d_hidden;
  const LinearDescription packed =
      Linear(block + "mlp.gate_up_proj", feed_forward.up.in_features, 2 * width, false);
  feed_forward.gate = PartOf(packed, 0, width);
  feed_forward.up = PartOf(packed, width, width);
}

}  // namespace

ModelDescription phi3(ModelConfig& config, const Checkpoint&) {
  LlamaDefaults defaults{.vocab_size = 32064,
                         .d_model = 3072,
                         .d_hidden = 8192,
                         .max_positions = 4096,
                         .epsilon = 1e-5f};
  defaults.rope.is_partial_allowed = true;
  defaults.rope.types = {"longrope"};
  defaults.rope.original_max_positions = 4096;
  ModelDescription model = LlamaModel(config, defaults);
  const int64_t window = config.Has("sliding_window") ? config.Size({"sliding_window"}) : 0;
  int64_t layer = 0;
  for (SublayerDescription& sublayer : model.stack.sublayers) {
    const std::string block = absl::StrCat("layers.", layer, ".");
    if (auto* attention = std::get_if<AttentionDescription>(&sublayer.layer)) {
      UsePackedAttention(block, *attention);
      attention->window = window;
    } else {
      UsePackedFeedForward(block, std::get<FeedForwardDescription>(sublayer.layer));
      ++layer;
    }
  }
  return model;
}

}  // namespace attention::families
