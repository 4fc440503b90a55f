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

SeededModelSpec DemoModelSpec() {
  return {.name = "demo",
          .seed = 1,
          .d_model = 512,
          .num_heads = 8,
          .vocab_size = 1000,
          .max_positions = 2048};
}

absl::StatusOr<std::unique_ptr<Model>> Model::CreateSeeded(const SeededModelSpec& given) {
  RETURN_IF_ERROR(ValidateSpec(given));
  SeededModelSpec spec = given;
  spec.num_kv_heads = spec.num_kv_heads > 0 ? spec.num_kv_heads : spec.num_heads;
  spec.head_dim = spec.head_dim > 0 ? spec.head_dim : spec.d_model / spec.num_heads;
  spec.value_head_dim = spec.value_head_dim > 0 ? spec.value_head_dim : spec.head_dim;

  std::unique_ptr<Model> model(new Model);
  const SeededLayer layer = MakeSeededLayer(spec.seed, spec.dtype, spec.d_model, spec.num_heads,
                                            spec.num_kv_heads, spec.head_dim, spec.value_head_dim);
  const MultiHeadAttentionShape shape{.d_model = spec.d_model,
                                      .d_memory = spec.d_model,
                                      .num_heads = spec.num_heads,
                                      .num_kv_heads = spec.num_kv_heads,
                                      .head_dim = spec.head_dim,
                                      .value_head_dim = spec.value_head_dim};
  ASSIGN_OR_RETURN(model->layer_, MultiHeadAttention::Create(shape, Borrow(layer), spec.dtype));
  if (spec.vocab_size > 0) {
    model->token_embedding_ = MakeSeededEmbedding(spec.seed, spec.dtype, "token_embedding",
                                                  spec.vocab_size, spec.d_model);
    model->position_embedding_ = MakeSeededEmbedding(spec.seed, spec.dtype, "position_embedding",
                                                     spec.max_positions, spec.d_model);
  }
  model->spec_ = std::move(spec);
  return model;
}

absl::Status Model::ValidateTokens(std::span<const int32_t> ids, int64_t first_position) const {
  if (spec_.vocab_size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model ", spec_.name, " takes no token ids: expected hidden_states, found token_ids"));
  }
  const auto bad = std::find_if(ids.begin(), ids.end(),
                                [&](int32_t id) { return id < 0 || id >= spec_.vocab_size; });
  if (bad != ids.end()) {
    return absl::InvalidArgumentError(absl::StrCat("token_ids.ids: expected 0 to ",
                                                   spec_.vocab_size - 1, ", found ", *bad,
                                                   " at position ", bad - ids.begin()));
  }
  if (first_position + std::ssize(ids) > spec_.max_positions) {
    return absl::InvalidArgumentError(
        absl::StrCat("token_ids: expected at most ", spec_.max_positions,
                     " positions, found a sequence that ends at ", first_position + ids.size()));
  }
  return absl::OkStatus();
}

void Model::Embed(std::span<const int32_t> ids, int64_t first_position, void* hidden_states) const {
  const int64_t d_model = spec_.d_model;
  std::vector<float> row(d_model);
  for (int64_t i = 0; i < std::ssize(ids); ++i) {
    const float* token = &token_embedding_[ids[i] * d_model];
    const float* position = &position_embedding_[(first_position + i) * d_model];
    std::transform(token, token + d_model, position, row.begin(), std::plus<>());
    Convert(Dtype::kF32, row.data(), spec_.dtype,
            ElementAt(hidden_states, spec_.dtype, i * d_model), d_model);
  }
}

}  // namespace attention
