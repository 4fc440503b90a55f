// The options of a request, as the core has them.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/attention/attention.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// Everything but bias and mask, in the core's terms; borrows from `wire`. INVALID_ARGUMENT names a
/// field that the core has no words for: an enumerator that there is not, a number that its type
/// cannot hold, a norm's weight of another width. What else is wrong, core/attention/check_options
/// says.
absl::StatusOr<AttentionOptions> ReadSharedOptions(const v1::AttentionOptions& wire,
                                                   int64_t head_dim);

}  // namespace attention
