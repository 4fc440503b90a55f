// The rules for a layer call. Internal to core/layers.
#pragma once

#include "absl/status/status.h"
#include "core/layers/layer_call.h"

namespace attention {

/// Checks a call of a layer. INVALID_ARGUMENT names the wrong field of the call, what was expected
/// and what was found. The time is proportional to the length of the sequences' options.
absl::Status ValidateCall(const MultiHeadAttentionShape& shape, const LayerCall& call);

}  // namespace attention
