// The tables of attention that `attend run` prints.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/show/run_report.h"
#include "client/lib/sequences.h"

namespace attention {

/// A table of what attends to what for each sequence, and each layer, of which the answer has
/// weights. INVALID_ARGUMENT when they do not fit the sequences, or have no such head.
absl::StatusOr<std::string> WeightsText(const RunReport& report,
                                        std::span<const SequenceSpan> sequences);

}  // namespace attention
