// The cost of a planned request, from its shapes: its memory while it waits, and its computation.
#pragma once

#include <cstdint>

#include "server/scheduling/job.h"
#include "server/services/plan/attend_plan.h"

namespace attention {

/// Returns the memory of the plan besides the request's own bytes.
int64_t PlannedBytes(const AttendPlan& plan);

/// Returns the number of operations. Nothing that is computed, copied or stored counts as none:
/// heads count with the widths that products compute, and every row and key counts beside the pairs
/// that it is part of. `description` has its sequences and tokens.
double FlopsOf(const AttendPlan& plan, const JobDescription& description);

}  // namespace attention
