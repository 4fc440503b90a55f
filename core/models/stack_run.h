// One run of a model's stack. Internal to core/models.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "core/models/model_state.h"

namespace attention {

/// One sequence's rows in the packed batch, and those it attends over.
struct StackSequence {
  int64_t first_row = 0;
  int64_t seq_len = 0;
  int64_t first_memory_row = 0;
  int64_t memory_len = 0;
  /// Of chosen layers' weights, and of caches; null: none.
  const ModelSequence* request = nullptr;
};

struct StackCall {
  /// f32 [rows, d_model]: what enters the first block; becomes the stack's output.
  MutableMatrixView stream;
  /// f32, of a decoder's encoder.
  std::optional<MatrixView> memory = {};
  std::span<const StackSequence> sequences;
  const std::function<bool()>& go_on;
};

/// Runs the sublayers, then the final norm. CANCELLED when go_on said so.
absl::Status RunStack(const Model& model, const Model::State& state, const Stack& stack,
                      const StackCall& call, Workspace& workspace);

}  // namespace attention
