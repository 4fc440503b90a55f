// Reads the options of a request in the core's terms.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/attention/attention.h"
#include "proto/attention/v1/attention.pb.h"
#include "server/services/plan/field_error.h"

namespace attention {

/// Returns the path of an option: "options.window".
FieldPath OptionPath(const std::string& option);

/// Reads all options except bias and mask, in the core's terms; the result borrows from `wire`.
/// INVALID_ARGUMENT names a field that has no value in the core's terms: an unknown enumerator, a
/// number that its type cannot hold, a norm's weight of another width. All other checks are in
/// core/attention/check_options.
absl::StatusOr<AttentionOptions> ReadSharedOptions(const v1::AttentionOptions& wire,
                                                   int64_t head_dim);

/// Replaces those visibility rules that `wire` sets, all but the mask; borrows from `wire`.
void ReadVisibility(const v1::AttentionOptions& wire, AttentionOptions& options);
void ReadVisibility(const v1::SequenceOptions& wire, AttentionOptions& options);

}  // namespace attention
