// Where the sequences of a request lie in its tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"

namespace attention {

/// Rows count over all leading extents: row b * S + s of a padded [B, S, ...] tensor, row t of a
/// packed [T, ...] one.
struct SequenceSpan {
  int64_t first_row = 0;
  int64_t query_len = 0;
  int64_t first_kv_row = 0;
  int64_t kv_len = 0;
  /// Key position of the first query row.
  int64_t query_offset = 0;
};

/// The sequences of `request`. INVALID_ARGUMENT when its lengths do not fit its tensors.
absl::StatusOr<std::vector<SequenceSpan>> SequencesOf(const AttendRequest& request);

/// Extents that count the rows of the output: {B, S} or {T}.
Shape LeadingExtents(const AttendRequest& request);

}  // namespace attention
