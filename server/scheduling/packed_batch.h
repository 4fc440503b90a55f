// The operands of a batch, packed without padding, and the calls of the core over them.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/runtime/workspace.h"
#include "core/runtime/yield.h"
#include "server/scheduling/batcher.h"

namespace attention {

/// How a computation reports rows and is interrupted. If both functions are null, it runs to its
/// end without interruption.
struct RunCallbacks {
  /// Called with rows of a sequence when they are final; by a whole stack at its end. If it returns
  /// false, the computation ends.
  RowsCallback on_rows;
  /// The number of rows between two calls of on_rows.
  int64_t block_rows = 0;
  /// Called by layers and whole stacks between the slices of their work.
  Yield yield;
};

/// The packed inputs of one batch, and its computation. Used by one thread, which shares the work
/// with the threads of the workspace's pool.
class PackedBatch {
 public:
  /// Allocates the memory of the jobs' replies and copies their inputs into `workspace`; both must
  /// outlive this. REQUIRES: batch.jobs is not empty.
  PackedBatch(const Batch& batch, Workspace& workspace);

  /// Runs the computation. Sequences of `RowRange` are counted over the whole batch. CANCELLED when
  /// yield, or on_rows before the last row, returned false; otherwise the errors of the core.
  absl::Status Compute(const RunCallbacks& callbacks);

  /// Returns the size of the operands in bytes, each rounded up to whole cache lines.
  int64_t input_bytes() const { return static_cast<int64_t>(input_bytes_); }
  /// Returns the job of a sequence of the batch, and the sequence's index within it.
  std::pair<Job*, int64_t> OwnerOf(int64_t sequence) const;

 private:
  struct Sequence {
    Job* job;
    int64_t index;      // within the job
    int64_t first_row;  // in the packed queries
    int64_t first_key;  // in the packed keys and values
  };
  struct Rows {
    std::byte* data = nullptr;
    Dtype dtype = Dtype::kF32;
    int64_t width = 0;
  };

  void LayOut(const Batch& batch);
  void ChooseOperands();
  /// Reserves the memory of the operands.
  void ReserveOperands();
  struct Copy;

  /// Copies the operands of all jobs, on all threads if there is much to copy.
  void Gather();
  /// Adds the copies of a job's operands, each of at most `most_bytes`. `first` is the job's first
  /// sequence, `next` that of the next job, or null.
  void AddCopies(const Sequence& first, const Sequence* next, int64_t most_bytes,
                 std::vector<Copy>& copies) const;
  absl::Status RunLayer(const RunCallbacks& callbacks);
  absl::Status RunStack(const RunCallbacks& callbacks);
  absl::Status RunAttention(const RunCallbacks& callbacks);
  absl::Status AppendToCaches(std::vector<AttentionSequence>& sequences);
  MatrixView RowsOf(Operand operand) const;
  /// Returns null when the batch has no such operand.
  std::optional<MatrixView> MemoryOf(Operand operand) const;

  Workspace& workspace_;
  const BatchKey key_;
  std::vector<Sequence> sequences_;
  int64_t num_rows_ = 0;
  int64_t num_keys_ = 0;  // rows of the memory, or keys of attention without a model
  int num_operands_ = 0;
  Rows operands_[3];
  size_t input_bytes_ = 0;
};

}  // namespace attention
