#include "server/services/attend_reply.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace attention {
namespace {

// Leaves room for the fields around the rows, so that the message, too, is at most 1 MiB.
constexpr size_t kMaxBlockBytes = (size_t{1} << 20) - 256;

int64_t RowsPerBlock(size_t row_bytes) {
  return static_cast<int64_t>(std::max<size_t>(1, kMaxBlockBytes / std::max<size_t>(1, row_bytes)));
}

// Of weights, log-sum-exp and keys.
constexpr size_t kElementBytes = 4;

constexpr size_t RoundUpToLine(size_t bytes) { return (bytes + 63) / 64 * 64; }

template <typename Block>
void WritePlace(const ScoreRange& range, Block& block) {
  block.set_sequence(range.sequence);
  block.set_head(range.head);
  block.set_first_row(range.first_row);
}

}  // namespace

AttendReply::AttendReply(const AttendPlan& plan)
    : dtype_(plan.output_dtype),
      shape_(plan.output_shape),
      row_axes_(plan.model == nullptr ? 2 : 1),
      width_(plan.output_width),
      num_heads_(plan.num_heads),
      has_weights_(plan.options.wire->return_weights()),
      has_log_sum_exp_(plan.options.wire->return_log_sum_exp()),
      has_top_weights_(plan.options.wire->weights_top_k() > 0) {
  output_bytes_ = static_cast<size_t>(NumElements(shape_)) * SizeOf(dtype_);
  size_bytes_ = output_bytes_;
  sequences_.reserve(plan.sequences.size());
  for (const PlannedSequence& planned : plan.sequences) {
    const int64_t rows = planned.query.rows;
    const int64_t keys = planned.key.rows;
    const int64_t top_k = plan.TopKOf(planned);
    sequences_.push_back({.first_row = planned.query.first_row,
                          .rows = rows,
                          .keys = keys,
                          .top_k = top_k,
                          .weights = Place(rows, has_weights_ ? keys : 0),
                          .log_sum_exp = Place(rows, has_log_sum_exp_ ? 1 : 0),
                          .top_weights = Place(rows, top_k),
                          .top_keys = Place(rows, top_k)});
  }
}

size_t AttendReply::Place(int64_t rows, int64_t row_elements) {
  if (row_elements == 0) {
    return size_bytes_;
  }
  const size_t offset = RoundUpToLine(size_bytes_);
  size_bytes_ = offset + static_cast<size_t>(num_heads_ * rows * row_elements) * kElementBytes;
  return offset;
}

bool AttendReply::Has(ScoreKind kind) const {
  return kind == ScoreKind::kWeights      ? has_weights_
         : kind == ScoreKind::kLogSumExp  ? has_log_sum_exp_
         : kind == ScoreKind::kTopWeights ? has_top_weights_
                                          : false;
}

void AttendReply::Allocate() {
  memory_ = std::make_shared<AlignedBuffer>(size_bytes_);
  size_t written = 0;
  const auto zero_until = [&](size_t offset) {
    if (offset > written) {
      std::memset(memory_->data() + written, 0, offset - written);
    }
  };
  for (const Sequence& sequence : sequences_) {
    zero_until(sequence.first_row * RowBytes());
    written = (sequence.first_row + sequence.rows) * RowBytes();
  }
  zero_until(output_bytes_);
}

void* AttendReply::Output(int64_t sequence) {
  return memory_->data() + sequences_[sequence].first_row * RowBytes();
}

ScoreOutputs AttendReply::Scores(int64_t sequence) {
  const Sequence& s = sequences_[sequence];
  std::byte* memory = memory_->data();
  ScoreOutputs scores;
  if (has_weights_) {
    scores.weights = reinterpret_cast<float*>(memory + s.weights);
  }
  if (has_log_sum_exp_) {
    scores.log_sum_exp = reinterpret_cast<float*>(memory + s.log_sum_exp);
  }
  if (s.top_k > 0) {
    scores.top_weights = {.k = s.top_k,
                          .weights = reinterpret_cast<float*>(memory + s.top_weights),
                          .keys = reinterpret_cast<int32_t*>(memory + s.top_keys)};
  }
  return scores;
}

grpc::Slice AttendReply::SliceOf(size_t offset, size_t size_bytes) const {
  return SharedSlice(memory_, memory_->data() + offset, size_bytes);
}

void AttendReply::Attach(size_t offset, v1::DataType dtype, const Shape& shape, Encoder& encoder,
                         v1::Tensor& tensor) const {
  WriteTensorHeader(dtype, shape, tensor);
  encoder.Attach(SliceOf(offset, NumElements(shape) * kElementBytes), tensor);
}

grpc::ByteBuffer AttendReply::EncodeResponse(const v1::Summary& summary) const {
  v1::AttendResponse response;
  Encoder encoder;
  WriteTensorHeader(dtype_, shape_, *response.mutable_output());
  encoder.Attach(SliceOf(0, output_bytes_), *response.mutable_output());
  for (const Sequence& s : sequences_) {
    if (has_weights_) {
      Attach(s.weights, v1::FP32, {num_heads_, s.rows, s.keys}, encoder, *response.add_weights());
    }
    if (has_log_sum_exp_) {
      Attach(s.log_sum_exp, v1::FP32, {num_heads_, s.rows}, encoder, *response.add_log_sum_exp());
    }
    if (has_top_weights_) {
      v1::TopWeights& top = *response.add_top_weights();
      const Shape shape = {num_heads_, s.rows, s.top_k};
      Attach(s.top_weights, v1::FP32, shape, encoder, *top.mutable_weights());
      Attach(s.top_keys, v1::INT32, shape, encoder, *top.mutable_keys());
    }
  }
  *response.mutable_summary() = summary;
  return encoder.Encode(response);
}

grpc::ByteBuffer AttendReply::EncodeRows(const RowRange& rows) const {
  v1::AttendStreamResponse response;
  Encoder encoder;
  v1::RowBlock& block = *response.mutable_rows();
  block.set_sequence(rows.sequence);
  block.set_first_row(rows.first_row);
  Shape shape = {rows.rows};
  shape.insert(shape.end(), shape_.end() - row_axes_, shape_.end());
  WriteTensorHeader(dtype_, shape, *block.mutable_output());
  const int64_t first = sequences_[rows.sequence].first_row + rows.first_row;
  encoder.Attach(SliceOf(first * RowBytes(), rows.rows * RowBytes()), *block.mutable_output());
  return encoder.Encode(response);
}

grpc::ByteBuffer AttendReply::EncodeScores(const ScoreRange& range) const {
  v1::AttendStreamResponse response;
  Encoder encoder;
  const Sequence& s = sequences_[range.sequence];
  const size_t first = static_cast<size_t>(range.head * s.rows + range.first_row) * kElementBytes;
  if (range.kind == ScoreKind::kWeights) {
    v1::WeightsBlock& block = *response.mutable_weights();
    WritePlace(range, block);
    Attach(s.weights + first * s.keys, v1::FP32, {range.rows, s.keys}, encoder,
           *block.mutable_weights());
  } else if (range.kind == ScoreKind::kLogSumExp) {
    v1::LogSumExpBlock& block = *response.mutable_log_sum_exp();
    WritePlace(range, block);
    Attach(s.log_sum_exp + first, v1::FP32, {range.rows}, encoder, *block.mutable_log_sum_exp());
  } else {
    v1::TopWeightsBlock& block = *response.mutable_top_weights();
    WritePlace(range, block);
    v1::TopWeights& top = *block.mutable_top_weights();
    const Shape shape = {range.rows, s.top_k};
    Attach(s.top_weights + first * s.top_k, v1::FP32, shape, encoder, *top.mutable_weights());
    Attach(s.top_keys + first * s.top_k, v1::INT32, shape, encoder, *top.mutable_keys());
  }
  return encoder.Encode(response);
}

std::vector<RowRange> AttendReply::SplitRows(const RowRange& rows) const {
  std::vector<RowRange> blocks;
  const int64_t step = RowsPerBlock(RowBytes());
  for (int64_t done = 0; done < rows.rows; done += step) {
    blocks.push_back({rows.sequence, rows.first_row + done, std::min(step, rows.rows - done)});
  }
  return blocks;
}

std::optional<ScoreRange> AttendReply::NextScores(const ScoreRange& last) const {
  ScoreRange next = last;
  next.first_row += last.rows;
  next.rows = 0;
  while (next.kind != ScoreKind::kNone) {
    if (!Has(next.kind) || next.sequence == std::ssize(sequences_)) {
      next = {.kind = static_cast<ScoreKind>(static_cast<int>(next.kind) + 1)};
      continue;
    }
    const Sequence& s = sequences_[next.sequence];
    if (next.head == num_heads_ || s.rows == 0) {
      next = {.kind = next.kind, .sequence = next.sequence + 1};
    } else if (next.first_row == s.rows) {
      next = {.kind = next.kind, .sequence = next.sequence, .head = next.head + 1};
    } else {
      const int64_t row_elements = next.kind == ScoreKind::kWeights     ? s.keys
                                   : next.kind == ScoreKind::kLogSumExp ? 1
                                                                        : 2 * s.top_k;
      next.rows = std::min(RowsPerBlock(row_elements * kElementBytes), s.rows - next.first_row);
      return next;
    }
  }
  return std::nullopt;
}

grpc::ByteBuffer EncodeSummary(const v1::Summary& summary) {
  v1::AttendStreamResponse response;
  *response.mutable_summary() = summary;
  return Encoder().Encode(response);
}

}  // namespace attention
