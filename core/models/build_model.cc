#include "core/models/build_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/attention/check_options.h"
#include "core/models/tensor_reader.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

class Builder {
 public:
  Builder(const ModelDescription& description, WeightsDtype weights_dtype, Checkpoint& checkpoint)
      : description_(description),
        weights_dtype_(weights_dtype),
        checkpoint_(checkpoint),
        state_(std::make_unique<ModelParts>()) {}

  absl::StatusOr<std::unique_ptr<ModelParts>> Build();

 private:
  absl::StatusOr<Stack> BuildStack(const StackDescription& stack);
  absl::StatusOr<Sublayer> BuildSublayer(const SublayerDescription& sublayer);
  absl::Status AddLayer(const AttentionDescription& attention);
  absl::StatusOr<std::vector<float>> TakeExtra(const std::string& name, int64_t width);
  absl::StatusOr<std::unique_ptr<FeedForward>> BuildFeedForward(
      const FeedForwardDescription& feed_forward);
  absl::Status BuildHead();
  absl::Status BuildEmbedding();
  absl::Status KeepTokens(const EmbeddingDescription& description, Embedding& embedding);
  Dtype TableDtype() const {
    return weights_dtype_ == WeightsDtype::kF32 ? Dtype::kF32 : Dtype::kBf16;
  }

  const ModelDescription& description_;
  const WeightsDtype weights_dtype_;
  Checkpoint& checkpoint_;
  std::unique_ptr<ModelParts> state_;
};

absl::StatusOr<std::vector<float>> Builder::TakeExtra(const std::string& name, int64_t width) {
  if (name.empty()) {
    return std::vector<float>();
  }
  return TakeValues(checkpoint_, name, {1, 1, width});
}

absl::Status Builder::AddLayer(const AttentionDescription& attention) {
  const MultiHeadAttentionShape& shape = attention.shape;
  // The output map is read first. Its width is that of its tensor, whereas maps that heads share
  // become wider than their tensors.
  ASSIGN_OR_RETURN(const StoredLinear output, TakeLinear(checkpoint_, attention.output));
  ASSIGN_OR_RETURN(const StoredLinear query, TakeLinear(checkpoint_, attention.query));
  ASSIGN_OR_RETURN(const StoredLinear key, TakeLinear(checkpoint_, attention.key));
  ASSIGN_OR_RETURN(const StoredLinear value, TakeLinear(checkpoint_, attention.value));
  MultiHeadAttentionWeights weights{.query = query.weights,
                                    .key = key.weights,
                                    .value = value.weights,
                                    .output = output.weights,
                                    .has_zero_key = attention.has_zero_key};
  ASSIGN_OR_RETURN(weights.extra_key,
                   TakeExtra(attention.extra_key, shape.num_kv_heads * shape.head_dim));
  ASSIGN_OR_RETURN(weights.extra_value,
                   TakeExtra(attention.extra_value, shape.num_kv_heads * shape.value_head_dim));
  ModelLayer layer{.causal = attention.causal,
                   .scale = attention.scale,
                   .softcap = attention.softcap,
                   .rotary = attention.rotary};
  ASSIGN_OR_RETURN(layer.attention, MultiHeadAttention::Create(shape, weights, weights_dtype_));
  ASSIGN_OR_RETURN(layer.query_norm, TakeNorm(checkpoint_, attention.query_norm));
  ASSIGN_OR_RETURN(layer.key_norm, TakeNorm(checkpoint_, attention.key_norm));
  if (layer.rotary.has_value()) {
    if (const auto error = CheckRotary(layer.rotary->rotary, shape.head_dim)) {
      return absl::InvalidArgumentError(absl::StrCat(error->field, ": ", error->text));
    }
  }
  state_->info.layers.push_back({.shape = shape,
                                 .causal = attention.causal,
                                 .is_cross = attention.is_cross,
                                 .extra_keys = layer.attention->extra_keys(),
                                 .window = attention.window});
  state_->layers.push_back(std::move(layer));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FeedForward>> Builder::BuildFeedForward(
    const FeedForwardDescription& feed_forward) {
  FeedForwardWeights weights{.d_model = description_.d_model,
                             .d_hidden = feed_forward.d_hidden,
                             .activation = feed_forward.activation};
  ASSIGN_OR_RETURN(const StoredLinear up, TakeLinear(checkpoint_, feed_forward.up));
  ASSIGN_OR_RETURN(const StoredLinear down, TakeLinear(checkpoint_, feed_forward.down));
  weights.up = up.weights;
  weights.down = down.weights;
  StoredLinear gate;
  if (feed_forward.gate.has_value()) {
    ASSIGN_OR_RETURN(gate, TakeLinear(checkpoint_, *feed_forward.gate));
    weights.gate = gate.weights;
  }
  return std::make_unique<FeedForward>(weights, weights_dtype_);
}

absl::StatusOr<Sublayer> Builder::BuildSublayer(const SublayerDescription& description) {
  Sublayer sublayer{.is_parallel = description.is_parallel};
  ASSIGN_OR_RETURN(sublayer.before, TakeNorm(checkpoint_, description.before));
  ASSIGN_OR_RETURN(sublayer.output, TakeNorm(checkpoint_, description.output));
  ASSIGN_OR_RETURN(sublayer.after, TakeNorm(checkpoint_, description.after));
  if (const auto* attention = std::get_if<AttentionDescription>(&description.layer)) {
    sublayer.attention = std::ssize(state_->layers);
    sublayer.is_cross = attention->is_cross;
    RETURN_IF_ERROR(AddLayer(*attention));
  } else {
    ASSIGN_OR_RETURN(sublayer.feed_forward,
                     BuildFeedForward(std::get<FeedForwardDescription>(description.layer)));
  }
  return sublayer;
}

absl::StatusOr<Stack> Builder::BuildStack(const StackDescription& description) {
  Stack stack;
  for (const SublayerDescription& sublayer : description.sublayers) {
    ASSIGN_OR_RETURN(Sublayer built, BuildSublayer(sublayer));
    stack.sublayers.push_back(std::move(built));
  }
  ASSIGN_OR_RETURN(stack.final_norm, TakeNorm(checkpoint_, description.final_norm));
  return stack;
}

absl::Status Builder::BuildHead() {
  if (!description_.head.has_value() || !description_.embedding.has_value()) {
    return absl::OkStatus();
  }
  const HeadDescription& head = *description_.head;
  const int64_t vocab_size = description_.embedding->vocab_size;
  std::string name = head.weight;
  if (!checkpoint_.Has(name)) {
    if (!head.is_tied) {
      return absl::OkStatus();  // the checkpoint was saved without the head
    }
    name = description_.embedding->tokens;
  }
  ASSIGN_OR_RETURN(const StoredTensor tensor,
                   checkpoint_.Take(name, {vocab_size, description_.d_model}));
  const PackedLinear::Part part{{.data = tensor.data, .dtype = tensor.dtype}, vocab_size};
  // 8-bit weights would cost the logits more accuracy than the memory is worth.
  const WeightsDtype kept =
      weights_dtype_ == WeightsDtype::kF32 ? WeightsDtype::kF32 : WeightsDtype::kBf16;
  const PackedLinear::Format format{kept, RowsDtype(kept, description_.d_model % 2 == 0)};
  state_->head.emplace(Head{PackedLinear(description_.d_model, {&part, 1}, format), head.softcap});
  state_->info.has_logits = true;
  return absl::OkStatus();
}

absl::Status Builder::KeepTokens(const EmbeddingDescription& description, Embedding& embedding) {
  const HeadDescription* head = description_.head.has_value() ? &*description_.head : nullptr;
  if (head != nullptr && head->is_tied &&
      (!checkpoint_.Has(head->weight) || !checkpoint_.Has(description.tokens))) {
    return absl::OkStatus();  // the output channels of the head are the token rows
  }
  ASSIGN_OR_RETURN(
      const StoredTensor tensor,
      checkpoint_.Take(description.tokens, {description.vocab_size, description_.d_model}));
  embedding.dtype = TableDtype();
  const int64_t elements = description.vocab_size * description_.d_model;
  embedding.tokens = MappedBuffer(elements * SizeOf(embedding.dtype));
  Convert(tensor.dtype, tensor.data, embedding.dtype, embedding.tokens.data(), elements);
  return absl::OkStatus();
}

absl::Status Builder::BuildEmbedding() {
  if (!description_.embedding.has_value()) {
    return absl::OkStatus();
  }
  const EmbeddingDescription& description = *description_.embedding;
  Embedding embedding{.scale = description.scale, .padding_id = description.padding_id};
  RETURN_IF_ERROR(KeepTokens(description, embedding));
  if (!description.positions.empty()) {
    ASSIGN_OR_RETURN(embedding.positions,
                     TakeValues(checkpoint_, description.positions,
                                {description.num_positions, description_.d_model}));
  }
  if (!description.types.empty()) {
    ASSIGN_OR_RETURN(embedding.types, TakeValues(checkpoint_, description.types,
                                                 {description.num_types, description_.d_model}));
  }
  ASSIGN_OR_RETURN(embedding.norm, TakeNorm(checkpoint_, description.norm));
  state_->embedding = std::move(embedding);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ModelParts>> Builder::Build() {
  checkpoint_.set_prefix(description_.prefix);
  ModelInfo& info = state_->info;
  info.d_model = description_.d_model;
  info.weights_dtype = weights_dtype_;
  if (description_.encoder.has_value()) {
    ASSIGN_OR_RETURN(state_->encoder, BuildStack(*description_.encoder));
    info.has_encoder = true;
  }
  ASSIGN_OR_RETURN(state_->stack, BuildStack(description_.stack));
  info.has_stack = description_.stack.sublayers.size() > 1;
  RETURN_IF_ERROR(BuildHead());
  RETURN_IF_ERROR(BuildEmbedding());
  info.max_positions = description_.max_positions;
  if (description_.embedding.has_value()) {
    const EmbeddingDescription& embedding = *description_.embedding;
    info.vocab_size = embedding.vocab_size;
    info.num_token_types = embedding.types.empty() ? 0 : embedding.num_types;
  }
  CountBytes(*state_);
  return std::move(state_);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelParts>> BuildModel(const ModelDescription& description,
                                                       WeightsDtype weights_dtype,
                                                       Checkpoint& checkpoint) {
  return Builder(description, weights_dtype, checkpoint).Build();
}

}  // namespace attention
