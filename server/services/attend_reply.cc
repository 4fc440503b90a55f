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

constexpr size_t RoundUpToLine(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

AttendReply::AttendReply(const AttendPlan& plan)
    : dtype_(plan.output_dtype),
      shape_(plan.output_shape),
      row_axes_(plan.model == nullptr ? 2 : 1),
      width_(plan.output_width),
      num_heads_(plan.num_heads),
      has_weights_(plan.return_weights) {
  output_bytes_ = static_cast<size_t>(NumElements(shape_)) * SizeOf(dtype_);
  size_bytes_ = output_bytes_;
  sequences_.reserve(plan.sequences.size());
  for (const PlannedSequence& sequence : plan.sequences) {
    const int64_t rows = sequence.query.rows;
    const int64_t keys = sequence.key.rows;
    size_bytes_ = has_weights_ ? RoundUpToLine(size_bytes_) : size_bytes_;
    sequences_.push_back({sequence.query.first_row, rows, keys, size_bytes_});
    size_bytes_ += has_weights_ ? static_cast<size_t>(num_heads_ * rows * keys) * sizeof(float) : 0;
  }
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

float* AttendReply::Weights(int64_t sequence) {
  return has_weights_
             ? reinterpret_cast<float*>(memory_->data() + sequences_[sequence].weights_offset)
             : nullptr;
}

grpc::Slice AttendReply::SliceOf(size_t offset, size_t size_bytes) const {
  return SharedSlice(memory_, memory_->data() + offset, size_bytes);
}

grpc::ByteBuffer AttendReply::EncodeResponse(const v1::Summary& summary) const {
  v1::AttendResponse response;
  Encoder encoder;
  WriteTensorHeader(dtype_, shape_, *response.mutable_output());
  encoder.Attach(SliceOf(0, output_bytes_), *response.mutable_output());
  for (const Sequence& sequence : sequences_) {
    if (has_weights_) {
      v1::Tensor& weights = *response.add_weights();
      const Shape shape = {num_heads_, sequence.rows, sequence.keys};
      WriteTensorHeader(Dtype::kF32, shape, weights);
      encoder.Attach(SliceOf(sequence.weights_offset, NumElements(shape) * sizeof(float)), weights);
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

grpc::ByteBuffer AttendReply::EncodeWeights(const WeightsRange& range) const {
  v1::AttendStreamResponse response;
  Encoder encoder;
  const Sequence& sequence = sequences_[range.sequence];
  v1::WeightsBlock& block = *response.mutable_weights();
  block.set_sequence(range.sequence);
  block.set_head(range.head);
  block.set_first_row(range.first_row);
  WriteTensorHeader(Dtype::kF32, {range.rows, sequence.keys}, *block.mutable_weights());
  const int64_t first = (range.head * sequence.rows + range.first_row) * sequence.keys;
  encoder.Attach(SliceOf(sequence.weights_offset + first * sizeof(float),
                         range.rows * sequence.keys * sizeof(float)),
                 *block.mutable_weights());
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

std::optional<WeightsRange> AttendReply::NextWeights(const WeightsRange& last) const {
  WeightsRange next = {last.sequence, last.head, last.first_row + last.rows, 0};
  while (has_weights_ && next.sequence < std::ssize(sequences_)) {
    const Sequence& sequence = sequences_[next.sequence];
    if (next.head == num_heads_ || sequence.rows == 0) {
      next = {next.sequence + 1, 0, 0, 0};
    } else if (next.first_row == sequence.rows) {
      next = {next.sequence, next.head + 1, 0, 0};
    } else {
      next.rows =
          std::min(RowsPerBlock(sequence.keys * sizeof(float)), sequence.rows - next.first_row);
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
