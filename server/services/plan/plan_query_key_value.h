// Plans requests for attention without a model.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/envelope.h"
#include "proto/codec/request_limits.h"
#include "server/services/plan/attend_plan.h"

namespace attention {

/// Plans query, key and value, and their common extents, from shapes alone. INVALID_ARGUMENT names
/// the field, what was expected and what was found. After an error `plan` must not be used.
absl::Status PlanQueryKeyValue(const Received<v1::AttendRequest>& request, AttendPlan& plan);

}  // namespace attention
