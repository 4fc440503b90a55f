// Merges answers over parts of the keys, so that a sequence can be spread over several servers.
#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"

namespace attention {

/// Returns output and log-sum-exp over all keys. `parts` are answers to query_key_value requests
/// for the same queries over disjoint keys, with return_log_sum_exp and without sinks; `sinks` [H]
/// (or none) are added here, once. The output of a model cannot be merged, because it has passed
/// the output projection.
///
/// Each part counts positions from its first key. So a part whose keys begin at key s of the whole
/// needs query_offsets reduced by s, rotary.position_offset s, and prefix and global tokens counted
/// from s.
///
/// INVALID_ARGUMENT if shapes or dtypes differ between the parts.
absl::StatusOr<AttendResult> MergeAnswers(std::span<const AttendResult> parts,
                                          std::span<const float> sinks = {});

}  // namespace attention
