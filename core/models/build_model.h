// Builds a model from a description and a checkpoint.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "core/models/checkpoint.h"
#include "core/models/description.h"
#include "core/models/model_parts.h"

namespace attention {

/// Packs every tensor that the description names. The errors are those of Checkpoint::Take.
absl::StatusOr<std::unique_ptr<ModelParts>> BuildModel(const ModelDescription& description,
                                                       WeightsDtype weights_dtype,
                                                       Checkpoint& checkpoint);

}  // namespace attention
