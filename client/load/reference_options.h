// Translates the options of a request for the reference.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/sequences.h"
#include "core/reference/reference.h"

namespace attention {

/// Extents of the model, or of query and key.
struct AttentionExtents {
  int64_t num_sequences = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  /// Whether attention is causal, unless the request says otherwise.
  bool is_causal = false;
};

/// Returns the options for sequence `index`, whose rows are `span`. INVALID_ARGUMENT for options
/// that do not fit the request, which a correct server would have refused.
absl::StatusOr<reference::Options> ReferenceOptionsOf(const AttendRequest& request,
                                                      const AttentionExtents& extents,
                                                      int64_t index, const SequenceSpan& span);

}  // namespace attention
