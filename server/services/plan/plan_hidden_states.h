// Plans requests for a model with rows.
#pragma once

#include "absl/status/status.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/envelope.h"
#include "server/services/plan/attend_plan.h"

namespace attention {

/// Plans the rows and the rows of `memory`. REQUIRES: PlanRun was OK.
absl::Status PlanHiddenStates(const Received<v1::AttendRequest>& request, AttendPlan& plan);

}  // namespace attention
