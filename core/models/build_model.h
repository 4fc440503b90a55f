// From a description and a checkpoint to a model.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "core/models/checkpoint.h"
#include "core/models/description.h"
#include "core/models/model_state.h"

namespace attention {

/// Packs every tensor that the description names. Errors as Checkpoint::Take.
absl::StatusOr<std::unique_ptr<Model::State>> BuildModel(const ModelDescription& description,
                                                         WeightsDtype weights_dtype,
                                                         Checkpoint& checkpoint);

}  // namespace attention
