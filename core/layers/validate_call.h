// The rules that a layer call obeys. Internal to core/layers.
#pragma once

#include "absl/status/status.h"
#include "core/layers/multi_head_attention.h"

namespace attention {

/// INVALID_ARGUMENT names what of the call is wrong, what was expected and what was found. Costs as
/// much as the sequences' options are long.
absl::Status ValidateCall(const MultiHeadAttention& layer, const LayerCall& call);

}  // namespace attention
