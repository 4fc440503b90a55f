// Reads tensors of a checkpoint in the form that the layers take.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernels/linear/linear.h"
#include "core/kernels/linear/norm.h"
#include "core/models/checkpoint.h"
#include "core/models/description.h"

namespace attention {

/// A linear map of a checkpoint. It borrows the tensors that need no copy. Movable.
struct StoredLinear {
  LinearWeights weights;
  std::vector<float> bias = {};
  std::vector<float> copied_weights = {};
};

/// Reads a linear map or a norm. The errors are those of Checkpoint::Take.
absl::StatusOr<StoredLinear> TakeLinear(Checkpoint& checkpoint, const LinearDescription& linear);
absl::StatusOr<Norm> TakeNorm(Checkpoint& checkpoint, const NormDescription& norm);
absl::StatusOr<std::optional<Norm>> TakeNorm(Checkpoint& checkpoint,
                                             const std::optional<NormDescription>& norm);
/// Reads all values of a tensor as f32.
absl::StatusOr<std::vector<float>> TakeValues(Checkpoint& checkpoint, const std::string& name,
                                              const Shape& shape);

}  // namespace attention
