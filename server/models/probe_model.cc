#include "server/models/probe_model.h"

#include <algorithm>
#include <random>
#include <vector>

#include "core/runtime/status_macros.h"
#include "core/tensor/seeded.h"

namespace attention {
namespace {

constexpr int64_t kWarmUpTokens = 8;
constexpr uint64_t kHiddenStatesSeed = 1;
constexpr uint64_t kMemorySeed = 2;
constexpr uint64_t kMemoryValuesSeed = 3;
constexpr uint64_t kTokensSeed = 4;

MatrixView Rows(const Tensor& tensor) {
  return {.data = tensor.data(),
          .dtype = tensor.dtype(),
          .rows = tensor.shape()[0],
          .cols = tensor.shape()[1],
          .row_stride = tensor.shape()[1]};
}

MutableMatrixView Rows(Tensor& tensor) {
  return {.data = tensor.data(),
          .dtype = tensor.dtype(),
          .rows = tensor.shape()[0],
          .cols = tensor.shape()[1],
          .row_stride = tensor.shape()[1]};
}

std::vector<int32_t> SeededIds(int64_t vocab_size, int64_t count) {
  std::mt19937_64 random(kTokensSeed);
  std::vector<int32_t> ids(count);
  std::generate(ids.begin(), ids.end(),
                [&] { return static_cast<int32_t>(random() % static_cast<uint64_t>(vocab_size)); });
  return ids;
}

absl::StatusOr<Tensor> StackInput(const Model& model, int64_t num_tokens) {
  const ModelInfo& info = model.info();
  if (info.vocab_size == 0) {
    return SeededTensor(kHiddenStatesSeed, Dtype::kF32, {num_tokens, info.d_model});
  }
  const std::vector<int32_t> ids = SeededIds(info.vocab_size, num_tokens);
  RETURN_IF_ERROR(model.ValidateTokens({.ids = ids}));
  Tensor hidden_states(Dtype::kF32, {num_tokens, info.d_model});
  model.Embed({.ids = ids}, hidden_states.as<float>());
  return hidden_states;
}

}  // namespace

int64_t ProbeLength(const ModelInfo& info, int64_t max_tokens) {
  return std::min(info.max_positions.value_or(max_tokens), max_tokens);
}

absl::StatusOr<Tensor> ProbeLayer(const Model& model, int64_t layer, const Probe& probe,
                                  Workspace& workspace) {
  const ModelLayerInfo& info = model.info().layers[layer];
  const MultiHeadAttentionShape& shape = info.shape;
  const int64_t rows = probe.num_tokens;
  const bool has_memory = info.needs_memory();
  const Tensor hidden_states = SeededTensor(kHiddenStatesSeed, Dtype::kF32, {rows, shape.d_model});
  const Tensor memory = SeededTensor(kMemorySeed, Dtype::kF32, {rows, shape.d_memory});
  const Tensor memory_values =
      SeededTensor(kMemoryValuesSeed, Dtype::kF32, {rows, shape.d_memory_value});
  Tensor output(Dtype::kF32, {rows, shape.d_model});
  const AttentionOptions requested = {.causal = info.causal};
  const LayerSequence sequence = {.query_len = rows,
                                  .memory_len = has_memory ? rows : 0,
                                  .output = Rows(output),
                                  .options = model.LayerOptions(layer, requested, rows)};
  LayerCall call = {.hidden_states = Rows(hidden_states), .sequences = {&sequence, 1}};
  if (has_memory) {
    call.memory = Rows(memory);
  }
  if (shape.has_memory_values()) {
    call.memory_values = Rows(memory_values);
  }
  RETURN_IF_ERROR(model.layer(layer).Run(call, workspace));
  return output;
}

absl::StatusOr<Tensor> ProbeStack(const Model& model, ModelOutput wanted, const Probe& probe,
                                  Workspace& workspace) {
  const int64_t rows = probe.num_tokens;
  ASSIGN_OR_RETURN(const Tensor hidden_states, StackInput(model, rows));
  const Tensor memory = SeededTensor(kMemorySeed, Dtype::kF32, {rows, model.info().d_model});
  const Model::OutputExtents extents = model.OutputOf(wanted, rows);
  Tensor output(Dtype::kF32, {extents.rows, extents.width});
  const bool has_encoder = model.info().has_encoder;
  const ModelSequence sequence = {.seq_len = rows,
                                  .memory_len = has_encoder ? rows : 0,
                                  .wanted = wanted,
                                  .output = Rows(output)};
  RETURN_IF_ERROR(
      model.Forward({.hidden_states = Rows(hidden_states),
                     .memory = has_encoder ? std::optional<MatrixView>(Rows(memory)) : std::nullopt,
                     .sequences = {&sequence, 1},
                     .yield = probe.yield},
                    workspace));
  return output;
}

absl::Status WarmUp(const Model& model) {
  ThreadPool pool(1);
  Workspace workspace(pool);
  const Probe probe = {.num_tokens = ProbeLength(model.info(), kWarmUpTokens)};
  RETURN_IF_ERROR(ProbeLayer(model, 0, probe, workspace).status());
  if (!model.info().has_stack) {
    return absl::OkStatus();
  }
  const bool has_logits = model.info().has_logits;
  return ProbeStack(model, has_logits ? ModelOutput::kLastLogits : ModelOutput::kHiddenStates,
                    probe, workspace)
      .status();
}

}  // namespace attention
