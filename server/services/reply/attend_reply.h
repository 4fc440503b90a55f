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
#include "server/services/plan/attend_plan.h"

namespace attention {

/// What an answer may have beside its output, in the order in which it is streamed.
enum class ScoreKind { kWeights, kLogSumExp, kTopWeights, kLayerWeights };

/// Of weights, log-sum-exp and keys.
inline constexpr size_t kTableElementBytes = 4;

/// What an answer has of one sequence: [num_heads, rows, row_elements] of 4 bytes each.
struct ScoreTable {
  ScoreKind kind = ScoreKind::kWeights;
  int64_t sequence = 0;
  int64_t layer = 0;  // of kLayerWeights
  int64_t num_heads = 0;
  int64_t rows = 0;
  int64_t row_elements = 1;
  // Bytes, in the answer's memory.
  size_t offset = 0;
  size_t keys_offset = 0;  // of kTopWeights
};

/// Some rows of one head of a table.
struct ScoreRange {
  int64_t table = 0;
  int64_t head = 0;  // index in the table
  int64_t first_row = 0;
  int64_t rows = 0;
};

/// Some tokens of one text.
struct TokenRange {
  int64_t sequence = 0;
  int64_t first_token = 0;
  int64_t count = 0;
};

/// What one streamed message holds: one of these, or, at the end, none.
struct ReplyPart {
  std::optional<TokenRange> tokens;
  std::optional<RowRange> rows;
  std::optional<ScoreRange> scores;

  bool empty() const { return !tokens.has_value() && !rows.has_value() && !scores.has_value(); }
};

/// The scheduler's account, without what it does not know.
v1::Summary ToWire(const BatchStats& stats);

/// Messages may be encoded while other rows are still being written. Sequences are counted as in
/// the request.
class AttendReply {
 public:
  explicit AttendReply(const AttendPlan& plan);

  /// What the reply takes from Allocate until it has gone: its memory, and the messages around it.
  int64_t size_bytes() const {
    return static_cast<int64_t>(memory_bytes_ + outputs_.size() * sizeof(ScoreOutputs)) +
           message_bytes_;
  }
  /// Of that, an estimate of the messages beside the memory that they refer to.
  int64_t message_bytes() const { return message_bytes_; }
  /// Holds on to `part` until the memory is gone, which messages refer to. Before Allocate.
  void Hold(std::shared_ptr<HeldReply> part) { part_ = std::move(part); }
  /// What to hold on to for a copy of it.
  const std::shared_ptr<HeldReply>& held() const { return part_; }
  /// All of it: from now on it waits to be taken.
  void SetComputed();
  /// Makes the memory. Rows that no sequence owns are zero, the others undefined.
  void Allocate();

  /// Row 0 of the sequence's output.
  void* Output(int64_t sequence);
  const void* Output(int64_t sequence) const;
  int64_t OutputRows(int64_t sequence) const { return outputs_[sequence].rows; }
  /// Elements of a row.
  int64_t width() const { return width_; }
  Dtype dtype() const { return dtype_; }
  ScoreOutputs Scores(int64_t sequence);

  /// The whole output, and a sequence's weights [num_heads, rows, keys]. REQUIRES: as below;
  /// weights were asked for.
  grpc::Slice OutputSlice() const { return SliceOf(0, output_bytes_); }
  const float* Weights(int64_t sequence) const { return scores_[sequence].weights; }

  /// The messages of the API. REQUIRES: Allocate was called, and the rows are final.
  grpc::ByteBuffer EncodeResponse(const v1::Summary& summary) const;
  grpc::ByteBuffer EncodePart(const ReplyPart& part) const;
  /// Writes a part that is not empty.
  void WritePart(const ReplyPart& part, Encoder& encoder, v1::AttendStreamResponse& response) const;

  /// `rows` in pieces that fit a streamed message: at most 1 MiB, or one row.
  std::vector<RowRange> SplitRows(const RowRange& rows) const;
  /// The piece that follows `last`; the first is the one that follows ScoreRange(); null at the
  /// end.
  std::optional<ScoreRange> NextScores(const ScoreRange& last) const;
  /// The same of tokens.
  std::optional<TokenRange> NextTokens(const TokenRange& last) const;

 private:
  /// Elements of a table: some rows of a head, or all of it.
  struct Block {
    int64_t first_element = 0;
    Shape shape;
  };

  int64_t MessageBytes(const AttendPlan& plan) const;
  void PlaceTables(const AttendPlan& plan);
  void AddTable(ScoreTable table);
  /// Where the outputs of a computation go, by sequence.
  void PointToTables();
  float* FloatsAt(size_t offset) { return reinterpret_cast<float*>(memory_->data() + offset); }
  /// All of the table without a range.
  static Block BlockOf(const ScoreTable& table, const ScoreRange* range);
  void Attach(const Block& block, size_t table_offset, Encoder& encoder, v1::Tensor& tensor) const;
  void AttachTop(const ScoreTable& table, const Block& block, Encoder& encoder,
                 v1::TopWeights& top) const;
  void AddScores(const ScoreTable& table, Encoder& encoder, v1::AttendResponse& response) const;
  void WriteRows(const RowRange& rows, Encoder& encoder, v1::RowBlock& block) const;
  void WriteScores(const ScoreRange& range, Encoder& encoder,
                   v1::AttendStreamResponse& response) const;
  template <typename WireBlock>
  WireBlock& WritePlace(const ScoreRange& range, WireBlock& block) const;
  size_t RowBytes() const { return static_cast<size_t>(width_) * SizeOf(dtype_); }
  grpc::Slice SliceOf(size_t offset, size_t size_bytes) const;

  Dtype dtype_;
  Shape shape_;
  ptrdiff_t row_axes_;  // trailing axes that make a row: [E], or [H, Dv]
  int64_t width_;
  std::vector<SequenceRows> outputs_;  // by sequence
  const WeightsChoice weights_choice_;
  const std::shared_ptr<const std::vector<TokenizedText>> texts_;  // or null
  std::vector<ScoreTable> tables_;                                 // in the order of a stream
  std::vector<ScoreOutputs> scores_;                               // by sequence
  size_t output_bytes_ = 0;
  size_t memory_bytes_ = 0;
  int64_t message_bytes_ = 0;
  std::shared_ptr<HeldReply> part_;
  std::shared_ptr<AlignedBuffer> memory_;
};

/// The last message of a stream.
grpc::ByteBuffer EncodeSummary(const v1::Summary& summary);

}  // namespace attention
