#include "client/lib/stream_assembler.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

absl::Status Wrong(const char* what, int64_t expected, int64_t found) {
  return absl::InternalError(
      absl::StrCat("streamed answer: ", what, ": expected ", expected, ", found ", found));
}

}  // namespace

absl::StatusOr<StreamAssembler> StreamAssembler::Create(const AttendRequest& request) {
  ASSIGN_OR_RETURN(std::vector<SequenceSpan> spans, SequencesOf(request));
  StreamAssembler assembler;
  assembler.leading_ = LeadingExtents(request);
  for (const SequenceSpan& span : spans) {
    assembler.sequences_.push_back({span, 0, {}, {}});
  }
  return assembler;
}

absl::StatusOr<StreamAssembler::Sequence*> StreamAssembler::Find(int64_t sequence) {
  if (sequence < 0 || sequence >= std::ssize(sequences_)) {
    return Wrong("sequence", std::ssize(sequences_) - 1, sequence);
  }
  return &sequences_[sequence];
}

absl::Status StreamAssembler::Allocate(const Tensor& rows) {
  if (rows.shape().empty()) {
    return Wrong("rank of a block", 2, 0);
  }
  row_shape_.assign(rows.shape().begin() + 1, rows.shape().end());
  Shape shape = leading_;
  shape.insert(shape.end(), row_shape_.begin(), row_shape_.end());
  output_ = Tensor(rows.dtype(), std::move(shape));
  // Rows of padding are never sent.
  if (output_.size_bytes() > 0) {
    std::memset(output_.data(), 0, output_.size_bytes());
  }
  return absl::OkStatus();
}

absl::Status StreamAssembler::Add(const RowBlock& block) {
  ASSIGN_OR_RETURN(Sequence* const sequence, Find(block.sequence));
  if (row_shape_.empty()) {
    RETURN_IF_ERROR(Allocate(block.rows));
  }
  Shape expected = row_shape_;
  expected.insert(expected.begin(), block.rows.shape().empty() ? 0 : block.rows.shape()[0]);
  if (block.rows.shape() != expected || block.rows.dtype() != output_.dtype()) {
    return absl::InternalError("streamed answer: a block differs in width or dtype from the first");
  }
  const int64_t rows = expected[0];
  if (block.first_row != sequence->received) {
    return Wrong("first row of a block", sequence->received, block.first_row);
  }
  if (rows > sequence->span.query_len - sequence->received) {
    return Wrong("rows of a sequence", sequence->span.query_len, sequence->received + rows);
  }
  if (block.rows.size_bytes() > 0) {
    const int64_t first_element =
        (sequence->span.first_row + sequence->received) * NumElements(row_shape_);
    std::memcpy(ElementAt(output_.data(), output_.dtype(), first_element), block.rows.data(),
                block.rows.size_bytes());
  }
  sequence->received += rows;
  return absl::OkStatus();
}

absl::Status StreamAssembler::Add(const WeightsBlock& block) {
  ASSIGN_OR_RETURN(Sequence* const sequence, Find(block.block.sequence));
  const Tensor& rows = block.block.rows;
  if (rows.shape().size() != 2 || rows.dtype() != Dtype::kF32) {
    return absl::InternalError("streamed answer: weights: expected FP32 of rank 2");
  }
  if (!sequence->kv_len.has_value()) {
    sequence->kv_len = rows.shape()[1];
  }
  if (rows.shape()[1] != *sequence->kv_len) {
    return Wrong("width of a weights block", *sequence->kv_len, rows.shape()[1]);
  }
  // Heads come in order, each in row order, or interleaved block by block.
  if (block.head < 0 || block.head > std::ssize(sequence->weights)) {
    return Wrong("head of a weights block, at most", std::ssize(sequence->weights), block.head);
  }
  if (block.head == std::ssize(sequence->weights)) {
    sequence->weights.emplace_back();
  }
  std::vector<float>& head = sequence->weights[block.head];
  const int64_t received = std::ssize(head);
  if (block.block.first_row * *sequence->kv_len != received) {
    return Wrong("elements before a weights block", block.block.first_row * *sequence->kv_len,
                 received);
  }
  head.insert(head.end(), rows.as<float>(), rows.as<float>() + rows.num_elements());
  return absl::OkStatus();
}

absl::Status StreamAssembler::Finish(AttendResult& result) {
  size_t num_heads = 0;
  for (const Sequence& sequence : sequences_) {
    if (sequence.received != sequence.span.query_len) {
      return Wrong("rows of a sequence", sequence.span.query_len, sequence.received);
    }
    num_heads = std::max(num_heads, sequence.weights.size());
  }
  result.output = std::move(output_);
  for (const Sequence& sequence : sequences_) {
    if (num_heads == 0) {
      break;
    }
    const int64_t kv_len = sequence.kv_len.value_or(sequence.span.kv_len);
    const int64_t head_elements = sequence.span.query_len * kv_len;
    Tensor weights(Dtype::kF32, {static_cast<int64_t>(num_heads), sequence.span.query_len, kv_len});
    float* target = weights.as<float>();
    for (size_t h = 0; h < num_heads && head_elements > 0; ++h) {
      const int64_t received = h < sequence.weights.size() ? std::ssize(sequence.weights[h]) : 0;
      if (received != head_elements) {
        return Wrong("weights of a head", head_elements, received);
      }
      target = std::copy(sequence.weights[h].begin(), sequence.weights[h].end(), target);
    }
    result.weights.push_back(std::move(weights));
  }
  return absl::OkStatus();
}

}  // namespace attention
