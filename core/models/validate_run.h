// The rules for a run of a whole stack. Internal to core/models.
#pragma once

#include "absl/status/status.h"
#include "core/models/model.h"

namespace attention {

/// Checks a run of the whole stack. INVALID_ARGUMENT names the wrong field of the call, what was
/// expected and what was found.
absl::Status ValidateRun(const Model& model, const ModelCall& call);

}  // namespace attention
