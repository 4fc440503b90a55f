// The part of a model that a request runs: one layer, or the whole stack; or attention without a
// model.
#pragma once

#include "absl/status/status.h"
#include "core/models/model.h"
#include "proto/attention/v1/attention.pb.h"
#include "server/services/plan/attend_plan.h"

namespace attention {

/// Makes the first part of a plan: what runs, of which model (`plan.model`, which the caller has
/// set; null without a model). INVALID_ARGUMENT names the field, what was expected and what was
/// found. After an error `plan` must not be used.
absl::Status PlanRun(const v1::AttendRequest& request, AttendPlan& plan);

/// Plans the output of a whole stack, if it is not one row for each row of the input.
void PlanStackOutput(AttendPlan& plan);

/// Whether the run takes keys and values, or an encoder's input, from `memory`.
enum class MemoryUse { kNever, kOptional, kAlways };
MemoryUse MemoryUseOf(const AttendPlan& plan);

}  // namespace attention
