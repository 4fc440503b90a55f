// What a request asks for, in the reference's terms.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/sequences.h"
#include "core/reference/reference.h"

namespace attention {

/// Of the model, or of query and key.
struct AttentionExtents {
  int64_t num_sequences = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  /// Unless the request says otherwise.
  bool is_causal = false;
};

/// Of sequence `index`, which is `span`. INVALID_ARGUMENT for options that do not fit the request:
/// a server that answered them is not to be trusted.
absl::StatusOr<reference::Options> ReferenceOptionsOf(const AttendRequest& request,
                                                      const AttentionExtents& extents,
                                                      int64_t index, const SequenceSpan& span);

}  // namespace attention
