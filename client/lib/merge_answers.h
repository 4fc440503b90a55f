// Merges answers over parts of the keys: so a sequence can be spread over several servers.
#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"

namespace attention {

/// Returns output and log-sum-exp over all keys. `parts` are answers to query_key_value requests
/// for the same queries over disjoint keys, asked with return_log_sum_exp and without sinks;
/// `sinks` [H] (or none) join here, once. The output of a model cannot be merged, because it has
/// passed the output projection.
///
/// Positions are a part's own: a part whose keys begin at key s of the whole needs query_offsets
/// less s (and rotary.position_offset s, prefix and global tokens counted from s).
///
/// INVALID_ARGUMENT when the parts do not fit together.
absl::StatusOr<AttendResult> MergeAnswers(std::span<const AttendResult> parts,
                                          std::span<const float> sinks = {});

}  // namespace attention
