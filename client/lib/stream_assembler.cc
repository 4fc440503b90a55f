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

/// The rows of a block, [rows, width] or [rows].
template <typename Block>
absl::StatusOr<HeadRows<float>::Block> RowsOf(const Block& block, size_t rank, const char* what) {
  const Tensor& rows = block.block.rows;
  if (rows.shape().size() != rank || rows.dtype() != Dtype::kF32) {
    return absl::InternalError(
        absl::StrCat("streamed answer: ", what, ": expected FP32 of rank ", rank));
  }
  return HeadRows<float>::Block{
      block.head, block.block.first_row, rank == 1 ? 1 : rows.shape()[1],
      std::span<const float>(rows.as<float>(), static_cast<size_t>(rows.num_elements()))};
}

}  // namespace

absl::StatusOr<StreamAssembler> StreamAssembler::Create(const AttendRequest& request) {
  ASSIGN_OR_RETURN(std::vector<SequenceSpan> spans, SequencesOf(request));
  StreamAssembler assembler;
  assembler.leading_ = LeadingExtents(request);
  for (const SequenceSpan& span : spans) {
    assembler.sequences_.push_back({.span = span});
  }
  assembler.weights_top_k_ = request.options.weights_top_k();
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
  ASSIGN_OR_RETURN(const auto rows, RowsOf(block, 2, "weights"));
  return sequence->weights.Add(rows, "weights");
}

absl::Status StreamAssembler::Add(const LogSumExpBlock& block) {
  ASSIGN_OR_RETURN(Sequence* const sequence, Find(block.block.sequence));
  ASSIGN_OR_RETURN(const auto rows, RowsOf(block, 1, "log-sum-exp"));
  return sequence->log_sum_exp.Add(rows, "log-sum-exp");
}

absl::Status StreamAssembler::Add(const TopWeightsBlock& block) {
  ASSIGN_OR_RETURN(Sequence* const sequence, Find(block.block.sequence));
  ASSIGN_OR_RETURN(const auto rows, RowsOf(block, 2, "largest weights"));
  RETURN_IF_ERROR(sequence->top_weights.Add(rows, "largest weights"));
  return sequence->top_keys.Add({rows.head, rows.first_row, rows.width, block.keys}, "their keys");
}

absl::Status StreamAssembler::FinishScores(AttendResult& result) const {
  int64_t weights_heads = 0, log_sum_exp_heads = 0, top_heads = 0;
  for (const Sequence& s : sequences_) {
    weights_heads = std::max(weights_heads, s.weights.num_heads());
    log_sum_exp_heads = std::max(log_sum_exp_heads, s.log_sum_exp.num_heads());
    top_heads = std::max(top_heads, s.top_weights.num_heads());
  }
  for (const Sequence& s : sequences_) {
    const int64_t rows = s.span.query_len;
    if (weights_heads > 0) {
      Tensor& weights = result.weights.emplace_back(
          Dtype::kF32, Shape{weights_heads, rows, s.weights.WidthOr(s.span.kv_len)});
      RETURN_IF_ERROR(s.weights.Join(weights_heads, rows, "weights", weights.as<float>()));
    }
    if (log_sum_exp_heads > 0) {
      Tensor& sums = result.log_sum_exp.emplace_back(Dtype::kF32, Shape{log_sum_exp_heads, rows});
      RETURN_IF_ERROR(s.log_sum_exp.Join(log_sum_exp_heads, rows, "log-sum-exp", sums.as<float>()));
    }
    if (top_heads > 0) {
      const int64_t k = s.top_weights.WidthOr(std::min(weights_top_k_, s.span.kv_len));
      LargestWeights& top = result.top_weights.emplace_back();
      top.weights = Tensor(Dtype::kF32, {top_heads, rows, k});
      top.keys.resize(top.weights.num_elements());
      RETURN_IF_ERROR(
          s.top_weights.Join(top_heads, rows, "largest weights", top.weights.as<float>()));
      RETURN_IF_ERROR(s.top_keys.Join(top_heads, rows, "keys", top.keys.data()));
    }
  }
  return absl::OkStatus();
}

absl::Status StreamAssembler::Finish(AttendResult& result) {
  for (const Sequence& sequence : sequences_) {
    if (sequence.received != sequence.span.query_len) {
      return Wrong("rows of a sequence", sequence.span.query_len, sequence.received);
    }
  }
  result.output = std::move(output_);
  return FinishScores(result);
}

}  // namespace attention
