// A request of every kind that a model takes.
#pragma once

#include "absl/status/status.h"
#include "core/models/model.h"

namespace attention {

/// Runs each attention layer, and the whole stack over hidden states and over token ids, of a short
/// sequence each. INTERNAL when something that comes out is not finite.
absl::Status AskModel(const Model& model);

}  // namespace attention
