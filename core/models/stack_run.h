// One run of a model's stack. Internal to core/models.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "core/models/model.h"
#include "core/models/model_parts.h"
#include "core/runtime/yield.h"

namespace attention {

/// The rows of one sequence in the packed batch, and the rows that it attends to.
struct StackSequence {
  int64_t first_row = 0;
  int64_t seq_len = 0;
  int64_t first_memory_row = 0;
  int64_t memory_len = 0;
  /// The sequence of the request, which has the choice of weights and the caches; null: neither.
  const ModelSequence* request = nullptr;
};

struct StackCall {
  /// f32 [rows, d_model]: the input of the first block. The run replaces it with the output of the
  /// stack.
  MutableMatrixView hidden_states;
  /// f32: the output of the encoder, for a decoder.
  std::optional<MatrixView> memory = {};
  std::span<const StackSequence> sequences;
  const Yield& yield;
};

/// Runs the sublayers, then the final norm. CANCELLED when yield returned false.
absl::Status RunStack(const Model& model, const ModelParts& state, const Stack& stack,
                      const StackCall& call, Workspace& workspace);

}  // namespace attention
