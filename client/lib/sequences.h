// Finds the rows of each sequence in the tensors of a request.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"

namespace attention {

/// The rows of a sequence. They are counted over all leading extents: row b * S + s of a padded
/// [B, S, ...] tensor, row t of a packed [T, ...] tensor.
struct SequenceSpan {
  int64_t first_row = 0;
  int64_t query_len = 0;
  int64_t first_kv_row = 0;
  int64_t kv_len = 0;
  /// The key position of the first query row.
  int64_t query_offset = 0;
  /// The rows of the output: those of the query; one if it is pooled and the sequence has any.
  int64_t first_output_row = 0;
  int64_t output_rows = 0;
};

/// Returns the sequences of `request`. The lengths of texts come from `tokens` of the answer.
/// INVALID_ARGUMENT if lengths do not fit the tensors, or tokens are missing.
absl::StatusOr<std::vector<SequenceSpan>> SequencesOf(
    const AttendRequest& request, std::span<const v1::TokenizedText> tokens = {});

/// Returns the leading extents of the output, which count its rows: {B, S}, {T}, or {N} if pooled.
Shape LeadingExtents(const AttendRequest& request, std::span<const SequenceSpan> sequences);

}  // namespace attention
