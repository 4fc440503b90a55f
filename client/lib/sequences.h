// Where the sequences of a request lie in its tensors.
#pragma once

#include <cstdint>
#include <span>
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
  /// The rows in the output: those of the query, or when pooled one row, if the sequence has any.
  int64_t first_output_row = 0;
  int64_t output_rows = 0;
};

/// The sequences of `request`. The lengths of texts come from `tokens` of the answer.
/// INVALID_ARGUMENT when its lengths do not fit its tensors, or tokens are missing.
absl::StatusOr<std::vector<SequenceSpan>> SequencesOf(
    const AttendRequest& request, std::span<const v1::TokenizedText> tokens = {});

/// The extents that count the rows of the output: {B, S}, {T}, or {N} when pooled.
Shape LeadingExtents(const AttendRequest& request, std::span<const SequenceSpan> sequences);

/// Whether the output has one row for each sequence.
bool IsPooled(v1::ModelOutput output);

}  // namespace attention
