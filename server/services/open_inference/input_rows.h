// The rows of padded inputs that are no padding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/services/open_inference/infer_inputs.h"
#include "server/services/plan/row_lengths.h"

namespace attention {

/// The leading extents of an input: `[B, S, ...]`.
struct PaddedExtents {
  int64_t batch_size = 0;
  int64_t seq_len = 0;
};

/// Returns the values of the optional input `name`, INT32 [B], one for each sequence; empty without
/// it.
absl::StatusOr<std::vector<int64_t>> ReadLengthsInput(const InferInputs& inputs,
                                                      const std::string& name, int64_t batch_size);

/// Returns the rows of each sequence, which are contiguous and counted from the sequence's first,
/// by `lengths`, by `attention_mask`, or all rows. INVALID_ARGUMENT for both inputs, for values out
/// of range, and for a mask whose ones are not contiguous, which names its row and position;
/// RESOURCE_EXHAUSTED for more than kMaxSequences.
absl::StatusOr<std::vector<SequenceRows>> ReadInputRows(const InferInputs& inputs,
                                                        const PaddedExtents& extents);

}  // namespace attention
