#include "core/models/model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/seeded.h"

namespace attention {
namespace {

MultiHeadAttentionWeights Borrow(const SeededLayer& layer) {
  return {.query = layer.query.data(),
          .key = layer.key.data(),
          .value = layer.value.data(),
          .output = layer.output.data(),
          .query_bias = layer.query_bias.data(),
          .key_bias = layer.key_bias.data(),
          .value_bias = layer.value_bias.data(),
          .output_bias = layer.output_bias.data()};
}

/// Largest extent of a seeded model: products of two stay far from overflow.
constexpr int64_t kMaxExtent = 1 << 20;

absl::Status ValidateSpec(const SeededModelSpec& spec) {
  for (const auto& [name, value] :
       {std::pair("d_model", spec.d_model), std::pair("num_heads", spec.num_heads)}) {
    if (value < 1 || value > kMaxExtent) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model ", spec.name, ": ", name, ": expected 1 to ", kMaxExtent, ", found ", value));
    }
  }
  if (spec.head_dim == 0 && spec.d_model % spec.num_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", spec.name, ": d_model: expected a multiple of num_heads ",
                     spec.num_heads, " unless head_dim is given, found ", spec.d_model));
  }
  if (spec.vocab_size > 0 && spec.max_positions < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model ", spec.name, ": max_positions: expected a positive number beside vocab_size ",
        spec.vocab_size, ", found ", spec.max_positions));
  }
  return absl::OkStatus();
}

}  // namespace

struct Model::State {
  ModelInfo info;
  std::unique_ptr<MultiHeadAttention> layer;
  std::vector<float> token_embedding;     // [vocab_size, d_model]
  std::vector<float> position_embedding;  // [max_positions, d_model]
};

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::~Model() = default;

const ModelInfo& Model::info() const { return state_->info; }
const MultiHeadAttention& Model::layer(int64_t) const { return *state_->layer; }

absl::StatusOr<std::unique_ptr<Model>> Model::CreateSeeded(const SeededModelSpec& given) {
  RETURN_IF_ERROR(ValidateSpec(given));
  SeededModelSpec spec = given;
  spec.num_kv_heads = spec.num_kv_heads > 0 ? spec.num_kv_heads : spec.num_heads;
  spec.head_dim = spec.head_dim > 0 ? spec.head_dim : spec.d_model / spec.num_heads;
  spec.value_head_dim = spec.value_head_dim > 0 ? spec.value_head_dim : spec.head_dim;

  auto model = std::make_unique<State>();
  const SeededLayer layer = MakeSeededLayer(spec.seed, spec.dtype, spec.d_model, spec.num_heads,
                                            spec.num_kv_heads, spec.head_dim, spec.value_head_dim);
  const MultiHeadAttentionShape shape{.d_model = spec.d_model,
                                      .d_memory = spec.d_model,
                                      .num_heads = spec.num_heads,
                                      .num_kv_heads = spec.num_kv_heads,
                                      .head_dim = spec.head_dim,
                                      .value_head_dim = spec.value_head_dim};
  ASSIGN_OR_RETURN(model->layer, MultiHeadAttention::Create(shape, Borrow(layer), spec.dtype));
  if (spec.vocab_size > 0) {
    model->token_embedding = MakeSeededEmbedding(spec.seed, spec.dtype, "token_embedding",
                                                  spec.vocab_size, spec.d_model);
    model->position_embedding = MakeSeededEmbedding(spec.seed, spec.dtype, "position_embedding",
                                                     spec.max_positions, spec.d_model);
  }
  model->info = {.name = spec.name,
                 .version = spec.version,
                 .model_type = "seeded",
                 .d_model = spec.d_model,
                 .layers = {{.shape = shape, .causal = spec.causal}},
                 .vocab_size = spec.vocab_size,
                 .max_positions = spec.max_positions,
                 .weights_dtype =
                     spec.dtype == Dtype::kBf16 ? WeightsDtype::kBf16 : WeightsDtype::kF32,
                 .seeded = spec};
  return std::make_unique<Model>(std::move(model));
}

AttentionOptions Model::LayerOptions(int64_t, const AttentionOptions& requested) const {
  return requested;
}

absl::Status Model::ValidateTokens(const TokenSequence& tokens) const {
  const std::span<const int32_t> ids = tokens.ids;
  if (info().vocab_size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model ", name(), " takes no token ids: expected hidden_states, found token_ids"));
  }
  const auto bad = std::find_if(ids.begin(), ids.end(),
                                [&](int32_t id) { return id < 0 || id >= info().vocab_size; });
  if (bad != ids.end()) {
    return absl::InvalidArgumentError(absl::StrCat("token_ids.ids: expected 0 to ",
                                                   info().vocab_size - 1, ", found ", *bad,
                                                   " at position ", bad - ids.begin()));
  }
  if (tokens.first_position + std::ssize(ids) > info().max_positions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "token_ids: expected at most ", info().max_positions,
        " positions, found a sequence that ends at ", tokens.first_position + std::ssize(ids)));
  }
  return absl::OkStatus();
}

void Model::Embed(const TokenSequence& tokens, float* hidden_states) const {
  const int64_t d_model = info().d_model;
  for (int64_t i = 0; i < std::ssize(tokens.ids); ++i) {
    const float* token = &state_->token_embedding[tokens.ids[i] * d_model];
    const float* position = &state_->position_embedding[(tokens.first_position + i) * d_model];
    std::transform(token, token + d_model, position, hidden_states + i * d_model, std::plus<>());
  }
}

Model::OutputExtents Model::OutputOf(ModelOutput wanted, int64_t seq_len) const {
  const bool is_logits = wanted == ModelOutput::kLogits || wanted == ModelOutput::kLastLogits;
  const bool is_every_row = wanted == ModelOutput::kLogits || wanted == ModelOutput::kHiddenStates;
  return {is_every_row ? seq_len : 1, is_logits ? info().vocab_size : info().d_model};
}

int64_t Model::NumKeys(int64_t layer, int64_t seq_len, int64_t memory_len) const {
  const ModelLayerInfo& info_of_layer = info().layers[layer];
  return (info_of_layer.is_cross ? memory_len : seq_len) + info_of_layer.extra_keys;
}

absl::Status Model::Forward(const ModelCall&, Workspace&) const {
  return absl::UnimplementedError("no stack");
}

}  // namespace attention
