// The options of a request that are the same for all of its sequences, whatever their lengths.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/attention/attention.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// Everything but what tells keys apart by position (windows, prefix, global tokens), bias and
/// mask; borrows from `wire`. INVALID_ARGUMENT names the field, also for options that do not go
/// together.
absl::StatusOr<AttentionOptions> ReadSharedOptions(const v1::AttentionOptions& wire,
                                                   int64_t num_heads, int64_t head_dim);

}  // namespace attention
