// The tables of attention that `attend run` prints.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/sequences.h"

namespace attention {

/// Which weights the tables show.
struct ShownWeights {
  /// One head; absent: the mean of all.
  std::optional<int64_t> head;
  /// All rows, not only the first 16.
  bool all_rows = false;
};

/// A table of what attends to what for each sequence, and each layer, of which the answer has
/// weights. INVALID_ARGUMENT when they do not fit the sequences, or have no such head.
absl::StatusOr<std::string> WeightsText(const AttendRequest& request, const AttendResult& result,
                                        std::span<const SequenceSpan> sequences,
                                        const ShownWeights& shown);

}  // namespace attention
