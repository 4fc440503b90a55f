#include "tests/core/models/ask_model.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/seeded.h"
#include "core/tensor/tensor.h"

namespace attention {
namespace {

constexpr int64_t kLength = 5;

MatrixView Rows(const Tensor& tensor) {
  const int64_t width = tensor.shape()[1];
  return {tensor.data(), Dtype::kF32, tensor.shape()[0], width, width};
}

MutableMatrixView Rows(Tensor& tensor) {
  const int64_t width = tensor.shape()[1];
  return {tensor.data(), Dtype::kF32, tensor.shape()[0], width, width};
}

absl::Status CheckFinite(const Tensor& tensor, const std::string& what) {
  const float* values = tensor.as<float>();
  const bool is_finite = std::all_of(values, values + tensor.num_elements(),
                                     [](float value) { return std::isfinite(value); });
  return is_finite ? absl::OkStatus()
                   : absl::InternalError(absl::StrCat(what, ": something is not finite"));
}

absl::Status AskLayer(const Model& model, int64_t layer, Workspace& workspace) {
  const ModelLayerInfo& info = model.info().layers[layer];
  const MultiHeadAttentionShape& shape = info.shape;
  const bool has_memory =
      info.is_cross || shape.d_memory != shape.d_model || shape.has_memory_values();
  const Tensor input = SeededTensor(1, Dtype::kF32, {kLength, shape.d_model});
  const Tensor memory = SeededTensor(2, Dtype::kF32, {kLength, shape.d_memory});
  const Tensor values = SeededTensor(3, Dtype::kF32, {kLength, shape.d_memory_value});
  Tensor output(Dtype::kF32, {kLength, shape.d_model});
  const LayerSequence sequence = {
      .query_len = kLength,
      .memory_len = has_memory ? kLength : 0,
      .output = Rows(output),
      .options = model.LayerOptions(layer, {.causal = info.causal}, kLength)};
  LayerCall call = {.hidden_states = Rows(input), .sequences = {&sequence, 1}};
  if (has_memory) {
    call.memory = Rows(memory);
  }
  if (shape.has_memory_values()) {
    call.memory_values = Rows(values);
  }
  RETURN_IF_ERROR(model.layer(layer).Run(call, workspace));
  return CheckFinite(output, absl::StrCat("layer ", layer));
}

absl::Status AskStack(const Model& model, const Tensor& input, Workspace& workspace) {
  const ModelInfo& info = model.info();
  const int64_t rows = input.shape()[0];
  const ModelOutput wanted = info.has_logits ? ModelOutput::kLogits : ModelOutput::kHiddenStates;
  const Model::OutputExtents extents = model.OutputOf(wanted, rows);
  const Tensor memory = SeededTensor(2, Dtype::kF32, {kLength, info.d_model});
  Tensor output(Dtype::kF32, {extents.rows, extents.width});
  const ModelSequence sequence = {.seq_len = rows,
                                  .memory_len = info.has_encoder ? kLength : 0,
                                  .wanted = wanted,
                                  .output = Rows(output)};
  ModelCall call = {.hidden_states = Rows(input), .sequences = {&sequence, 1}};
  if (info.has_encoder) {
    call.memory = Rows(memory);
  }
  RETURN_IF_ERROR(model.Forward(call, workspace));
  return CheckFinite(output, "the stack");
}

absl::StatusOr<Tensor> Embedded(const Model& model) {
  const ModelInfo& info = model.info();
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < std::min(kLength, info.max_positions.value_or(kLength)); ++i) {
    ids.push_back(static_cast<int32_t>((i * 7 + 1) % info.vocab_size));
  }
  RETURN_IF_ERROR(model.ValidateTokens({.ids = ids}));
  Tensor rows(Dtype::kF32, {std::ssize(ids), info.d_model});
  model.Embed({.ids = ids}, rows.as<float>());
  return rows;
}

}  // namespace

absl::Status AskModel(const Model& model) {
  ThreadPool pool(1);
  Workspace workspace(pool);
  const ModelInfo& info = model.info();
  for (size_t layer = 0; layer < info.layers.size(); ++layer) {
    RETURN_IF_ERROR(AskLayer(model, static_cast<int64_t>(layer), workspace));
  }
  if (!info.has_stack) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(
      AskStack(model, SeededTensor(1, Dtype::kF32, {kLength, info.d_model}), workspace));
  if (info.vocab_size == 0) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Tensor embedded, Embedded(model));
  return AskStack(model, embedded, workspace);
}

}  // namespace attention
