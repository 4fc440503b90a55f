// The cost of a planned request, from its shapes: its memory while it waits, and its computation.
#pragma once

#include <cstdint>

#include "server/scheduling/job.h"
#include "server/services/plan/attend_plan.h"

namespace attention {

/// Returns the memory of the plan besides the request's own bytes.
int64_t PlannedBytes(const AttendPlan& plan);

/// Returns the estimated number of floating point operations. Copies and conversions count as the
/// operations that would be computed in their time. Heads count with their padded widths.
/// REQUIRES: `description` has its sequences and tokens.
double FlopsOf(const AttendPlan& plan, const JobDescription& description);
/// Returns those of them that rows spend on the keys that they attend to. REQUIRES: as above.
double AttentionFlopsOf(const AttendPlan& plan, const JobDescription& description);
/// Returns the rows that are multiplied with a model's weights. REQUIRES: as above.
int64_t WeightRowsOf(const AttendPlan& plan, const JobDescription& description);

}  // namespace attention
