// Puts the blocks of a streamed answer together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/sequences.h"

namespace attention {

class StreamAssembler {
 public:
  /// Keeps no reference to `request`. Errors of SequencesOf.
  static absl::StatusOr<StreamAssembler> Create(const AttendRequest& request);

  /// INTERNAL for a block that does not continue its sequence, or does not fit the answer.
  absl::Status Add(const RowBlock& block);
  absl::Status Add(const WeightsBlock& block);

  /// Moves the answer into `result`; rows of padding are 0. INTERNAL when rows are missing.
  absl::Status Finish(AttendResult& result);

 private:
  struct Sequence {
    SequenceSpan span;
    int64_t received = 0;                     // rows
    std::vector<std::vector<float>> weights;  // [head][rows * kv_len]
    std::optional<int64_t> kv_len;            // once a block told it
  };

  absl::StatusOr<Sequence*> Find(int64_t sequence);
  absl::Status Allocate(const Tensor& rows);

  Shape leading_;    // {B, S} or {T}
  Shape row_shape_;  // {E} or {H, Dv}, once the first block told it
  std::vector<Sequence> sequences_;
  Tensor output_;
};

}  // namespace attention
