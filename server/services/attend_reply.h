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
#include "server/scheduling/job.h"
#include "server/services/attend_plan.h"

namespace attention {

/// What an answer may have beside its output, in the order in which it is streamed.
enum class ScoreKind { kWeights, kLogSumExp, kTopWeights, kNone };

/// Rows of one head.
struct ScoreRange {
  ScoreKind kind = ScoreKind::kWeights;
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
  ScoreOutputs Scores(int64_t sequence);

  /// The messages of the API. REQUIRES: Allocate was called, and the rows are final.
  grpc::ByteBuffer EncodeResponse(const v1::Summary& summary) const;
  grpc::ByteBuffer EncodeRows(const RowRange& rows) const;
  grpc::ByteBuffer EncodeScores(const ScoreRange& range) const;

  /// `rows` in pieces that fit a streamed message: at most 1 MiB, or one row.
  std::vector<RowRange> SplitRows(const RowRange& rows) const;
  /// The piece that follows `last`; the first is the one that follows ScoreRange(); null at the
  /// end.
  std::optional<ScoreRange> NextScores(const ScoreRange& last) const;

 private:
  struct Sequence {
    int64_t first_row;  // in the output
    int64_t rows;
    int64_t keys;
    int64_t top_k;
    // Bytes, in the memory: [num_heads, rows, ...], 4 bytes an element.
    size_t weights;      // [.., keys]
    size_t log_sum_exp;  // [..]
    size_t top_weights;  // [.., top_k]
    size_t top_keys;     // [.., top_k]
  };

  /// Makes room for `row_elements` of each of `rows` rows of each head; where it is.
  size_t Place(int64_t rows, int64_t row_elements);
  bool Has(ScoreKind kind) const;
  void Attach(size_t offset, v1::DataType dtype, const Shape& shape, Encoder& encoder,
              v1::Tensor& tensor) const;
  size_t RowBytes() const { return static_cast<size_t>(width_) * SizeOf(dtype_); }
  grpc::Slice SliceOf(size_t offset, size_t size_bytes) const;

  Dtype dtype_;
  Shape shape_;
  ptrdiff_t row_axes_;  // trailing axes that make a row: [E], or [H, Dv]
  int64_t width_;
  int64_t num_heads_;
  bool has_weights_;
  bool has_log_sum_exp_;
  bool has_top_weights_;
  std::vector<Sequence> sequences_;
  size_t output_bytes_ = 0;
  size_t size_bytes_ = 0;
  std::shared_ptr<AlignedBuffer> memory_;
};

/// The last message of a stream.
grpc::ByteBuffer EncodeSummary(const v1::Summary& summary);

}  // namespace attention
