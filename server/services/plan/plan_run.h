// What a request runs: bare attention, one layer of a model, or its whole stack.
#pragma once

#include "absl/status/status.h"
#include "core/models/model.h"
#include "proto/attention/v1/attention.pb.h"
#include "server/services/plan/attend_plan.h"

namespace attention {

/// The first part of a plan: what runs, of which model (`plan.model`, null without).
absl::Status PlanRun(const v1::AttendRequest& request, AttendPlan& plan);

/// The output of a whole stack, where it is not one row for each row of the input.
void PlanStackOutput(AttendPlan& plan);

/// Whether what runs takes keys and values, or an encoder's input, from `memory`.
enum class MemoryUse { kNever, kOptional, kAlways };
MemoryUse MemoryUseOf(const AttendPlan& plan);
/// Whether the layer always takes `memory`: for cross-attention, or since its keys or values are of
/// another width than its rows.
bool NeedsMemory(const ModelLayerInfo& layer);

}  // namespace attention
