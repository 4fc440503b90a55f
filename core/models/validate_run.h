// The rules that a run of a whole stack obeys. Internal to core/models.
#pragma once

#include "absl/status/status.h"
#include "core/models/model.h"

namespace attention {

/// INVALID_ARGUMENT names what of the call is wrong, what was expected and what was found.
absl::Status ValidateRun(const Model& model, const ModelCall& call);

}  // namespace attention
