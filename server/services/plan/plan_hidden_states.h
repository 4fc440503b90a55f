// Requests for a model with rows of its own.
#pragma once

#include "absl/status/status.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/envelope.h"
#include "server/services/plan/attend_plan.h"

namespace attention {

/// The rows, and those of `memory`, as a part of the plan. REQUIRES: PlanRun was OK.
absl::Status PlanHiddenStates(const Received<v1::AttendRequest>& request, AttendPlan& plan);

}  // namespace attention
