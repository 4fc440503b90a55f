// Tensors of a checkpoint as the layers take them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernels/linear.h"
#include "core/kernels/norm.h"
#include "core/models/checkpoint.h"
#include "core/models/description.h"

namespace attention {

/// Borrows from the checkpoint what need not be copied; movable.
struct ReadLinear {
  LinearWeights weights;
  std::vector<float> bias = {};
  std::vector<float> copied_weights = {};
};

/// INVALID_ARGUMENT as Checkpoint::Take.
absl::StatusOr<ReadLinear> TakeLinear(Checkpoint& checkpoint, const LinearDescription& linear);
absl::StatusOr<Norm> TakeNorm(Checkpoint& checkpoint, const NormDescription& norm);
absl::StatusOr<std::optional<Norm>> TakeNorm(Checkpoint& checkpoint,
                                             const std::optional<NormDescription>& norm);
/// All values, as f32.
absl::StatusOr<std::vector<float>> TakeValues(Checkpoint& checkpoint, const std::string& name,
                                              const Shape& shape);

}  // namespace attention
