// Which rows of padded inputs count.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/services/open_inference/infer_inputs.h"
#include "server/services/plan/row_lengths.h"

namespace attention {

/// Leading extents of the input whose rows are meant: `[B, S, ...]`.
struct PaddedExtents {
  int64_t batch_size = 0;
  int64_t seq_len = 0;
};

/// Values of the optional input `name`, INT32 [B], one for each sequence; none without it.
absl::StatusOr<std::vector<int64_t>> ReadLengthsInput(const InferInputs& inputs,
                                                      const std::string& name, int64_t batch_size);

/// By `lengths`, by `attention_mask`, or all rows. For each sequence its one run of rows, counted
/// from the sequence's first. INVALID_ARGUMENT for both, for values out of range, and for a mask
/// whose ones are not one run, which names its row and position; RESOURCE_EXHAUSTED for more than
/// kMaxSequences.
absl::StatusOr<std::vector<SequenceRows>> ReadInputRows(const InferInputs& inputs,
                                                        const PaddedExtents& extents);

}  // namespace attention
