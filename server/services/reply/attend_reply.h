// The memory of an answer.
#pragma once

#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/tensor/ragged.h"
#include "core/tensor/tensor.h"
#include "server/scheduling/job.h"
#include "server/services/plan/attend_plan.h"

namespace attention {

/// The parts of an answer besides its output, in the order in which they are streamed.
enum class ScoreKind { kWeights, kLogSumExp, kTopWeights, kLayerWeights };

/// The bytes of a table's element: a weight or a log-sum-exp (f32), or the number of a key (int32).
inline constexpr size_t kTableElementBytes = 4;

/// A table of one sequence: [num_heads, rows, row_elements] of 4 bytes each.
struct ScoreTable {
  ScoreKind kind = ScoreKind::kWeights;
  int64_t sequence = 0;
  int64_t layer = 0;  // kLayerWeights only
  int64_t num_heads = 0;
  int64_t rows = 0;
  int64_t row_elements = 1;
  // Offsets in bytes in the answer's memory.
  size_t offset = 0;
  size_t keys_offset = 0;  // kTopWeights only
};

/// The memory of an answer. Rows may be read while others are still being written. Sequences are
/// counted as in the request.
class AttendReply {
 public:
  explicit AttendReply(const AttendPlan& plan);

  /// Returns the memory of the reply from Allocate until it is sent: its contents, and the messages
  /// around them.
  int64_t size_bytes() const {
    return static_cast<int64_t>(memory_bytes_ + outputs_.size() * sizeof(ScoreOutputs)) +
           message_bytes_;
  }
  /// Returns how much of size_bytes() the messages take, an estimate.
  int64_t message_bytes() const { return message_bytes_; }
  /// Keeps `held`, the reply's bytes in the ReplyBudget, until the memory is released, to which
  /// messages refer. Called before Allocate.
  void Hold(std::shared_ptr<HeldReply> held) { held_ = std::move(held); }
  /// Returns these bytes in the budget. Who sends a copy of the memory keeps them until it is sent.
  const std::shared_ptr<HeldReply>& held() const { return held_; }
  /// Notes that the reply is computed and waits for its caller.
  void SetComputed();
  /// Allocates the memory. Rows of no sequence are zero, the others undefined.
  void Allocate();

  /// Returns row 0 of the sequence's output.
  void* Output(int64_t sequence);
  const void* Output(int64_t sequence) const;
  int64_t OutputRows(int64_t sequence) const { return outputs_[sequence].rows; }
  /// Returns the number of elements of a row.
  int64_t width() const { return width_; }
  Dtype dtype() const { return dtype_; }
  ScoreOutputs Scores(int64_t sequence);

  /// Return the whole output, some rows of it, and any part of the memory, which they keep alive.
  /// REQUIRES: Allocate was called, and the rows are final.
  grpc::Slice OutputSlice() const { return SliceOf(0, output_bytes_); }
  grpc::Slice RowsSlice(const RowRange& rows) const;
  grpc::Slice SliceOf(size_t offset, size_t size_bytes) const;
  /// Returns a sequence's weights [num_heads, rows, keys], of a whole stack those of the first
  /// chosen layer. REQUIRES: as above, and weights were requested.
  const float* Weights(int64_t sequence) const {
    const ScoreOutputs& scores = scores_[sequence];
    return scores.layer_weights.empty() ? scores.weights : scores.layer_weights[0];
  }

  /// Return the shape of the output, and of a row of it: [E], or [H, Dv].
  const Shape& shape() const { return shape_; }
  Shape RowShape() const { return {shape_.end() - row_axes_, shape_.end()}; }
  size_t RowBytes() const { return static_cast<size_t>(width_) * SizeOf(dtype_); }
  /// Returns the tables in the order of a stream.
  const std::vector<ScoreTable>& tables() const { return tables_; }
  const WeightsChoice& weights_choice() const { return weights_choice_; }
  /// Returns the texts of a request of texts; otherwise none.
  std::span<const TokenizedText> texts() const {
    return texts_ == nullptr ? std::span<const TokenizedText>() : *texts_;
  }

 private:
  int64_t MessageBytes(const AttendPlan& plan) const;
  void AddTables(const AttendPlan& plan);
  void AddTable(ScoreTable table);
  /// Sets where the computation writes the tables of each sequence.
  void PointToTables();
  float* FloatsAt(size_t offset) { return reinterpret_cast<float*>(memory_->data() + offset); }

  Dtype dtype_;
  Shape shape_;
  ptrdiff_t row_axes_;  // trailing axes that make a row: [E], or [H, Dv]
  int64_t width_;
  std::vector<SequenceRows> outputs_;  // by sequence
  const WeightsChoice weights_choice_;
  const std::shared_ptr<const std::vector<TokenizedText>> texts_;  // or null
  std::vector<ScoreTable> tables_;
  std::vector<ScoreOutputs> scores_;  // by sequence
  size_t output_bytes_ = 0;
  size_t memory_bytes_ = 0;
  int64_t message_bytes_ = 0;
  std::shared_ptr<HeldReply> held_;
  std::shared_ptr<AlignedBuffer> memory_;
};

}  // namespace attention
