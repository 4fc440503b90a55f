// Requests for attention without weights.
#pragma once

#include "absl/status/status.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/envelope.h"
#include "server/services/plan/attend_plan.h"

namespace attention {

/// Query, key and value, and what they have in common, as a part of the plan.
absl::Status PlanQueryKeyValue(const Received<v1::AttendRequest>& request, AttendPlan& plan);

}  // namespace attention
