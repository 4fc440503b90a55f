// The answer of an Attend or AttendStream call: its memory, and its messages, which refer to that
// memory.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/tensor/ragged.h"
#include "core/tensor/tensor.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/encode.h"
#include "server/services/attend_plan.h"

namespace attention {

/// Rows of one head's weights.
struct WeightsRange {
  int64_t sequence = 0;
  int64_t head = 0;
  int64_t first_row = 0;
  int64_t rows = 0;
};

/// Messages may be encoded while other rows are still being written. Sequences are counted as in
/// the request.
class AttendReply {
 public:
  explicit AttendReply(const AttendPlan& plan);

  /// Makes the memory. Rows that no sequence owns are zero, the others undefined.
  void Allocate();

  /// Row 0 of the sequence's output.
  void* Output(int64_t sequence);
  /// Null unless the plan returns weights.
  float* Weights(int64_t sequence);

  /// The messages of the API. REQUIRES: Allocate was called, and the rows are final.
  grpc::ByteBuffer EncodeResponse(const v1::Summary& summary) const;
  grpc::ByteBuffer EncodeRows(const RowRange& rows) const;
  grpc::ByteBuffer EncodeWeights(const WeightsRange& range) const;

  /// `rows` in pieces that fit a streamed message: at most 1 MiB, or one row.
  std::vector<RowRange> SplitRows(const RowRange& rows) const;
  /// The piece of the weights that follows `last`, whose first is the one that follows
  /// WeightsRange(); null at the end.
  std::optional<WeightsRange> NextWeights(const WeightsRange& last) const;

 private:
  struct Sequence {
    int64_t first_row;  // in the output
    int64_t rows;
    int64_t keys;
    size_t weights_offset;  // bytes, in the memory
  };

  size_t RowBytes() const { return static_cast<size_t>(width_) * SizeOf(dtype_); }
  grpc::Slice SliceOf(size_t offset, size_t size_bytes) const;

  Dtype dtype_;
  Shape shape_;
  ptrdiff_t row_axes_;  // trailing axes that make a row: [E], or [H, Dv]
  int64_t width_;
  int64_t num_heads_;
  bool has_weights_;
  std::vector<Sequence> sequences_;
  size_t output_bytes_ = 0;
  size_t size_bytes_ = 0;
  std::shared_ptr<AlignedBuffer> memory_;
};

/// The last message of a stream.
grpc::ByteBuffer EncodeSummary(const v1::Summary& summary);

}  // namespace attention
