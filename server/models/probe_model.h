// Small seeded problems for a model, to warm it up and to compare two models.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/models/model.h"
#include "core/runtime/workspace.h"
#include "core/runtime/yield.h"
#include "core/tensor/tensor.h"

namespace attention {

struct Probe {
  /// The number of tokens of the one sequence, and of its memory if it has one.
  int64_t num_tokens = 0;
  /// A function that is called between sublayers and returns whether to continue; may be null.
  Yield yield = nullptr;
};

/// Returns how many tokens, at most `max_tokens`, the model accepts.
int64_t ProbeLength(const ModelInfo& info, int64_t max_tokens);

/// Computes attention of a layer over N(0, 1)-like rows: f32 [num_tokens, d_model]. REQUIRES: 0 <=
/// layer < info().layers.size().
absl::StatusOr<Tensor> ProbeLayer(const Model& model, int64_t layer, const Probe& probe,
                                  Workspace& workspace);

/// Computes the whole stack over seeded token ids, or over N(0, 1)-like rows if it takes no ids:
/// f32, with the extents of Model::OutputOf. REQUIRES: info().has_stack; for logits has_logits.
absl::StatusOr<Tensor> ProbeStack(const Model& model, ModelOutput wanted, const Probe& probe,
                                  Workspace& workspace);

/// Runs the stack and a layer once, so that the first request finds everything set up.
absl::Status WarmUp(const Model& model);

}  // namespace attention
