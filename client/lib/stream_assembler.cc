#include "client/lib/stream_assembler.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
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
  StreamAssembler assembler;
  assembler.model_output_ = request.model_output;
  assembler.weights_choice_ = request.weights_choice;
  assembler.weights_top_k_ = request.options.weights_top_k();
  if (const auto* input = std::get_if<TextInput>(&request.input)) {
    assembler.tokens_.resize(input->texts.size());
  } else {
    RETURN_IF_ERROR(assembler.LayOut(request));
  }
  return assembler;
}

absl::Status StreamAssembler::LayOut(const AttendRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<SequenceSpan> spans, SequencesOf(request, tokens_));
  leading_ = LeadingExtents(request, spans);
  for (const SequenceSpan& span : spans) {
    sequences_.push_back({.span = span});
  }
  is_laid_out_ = true;
  return absl::OkStatus();
}

absl::Status StreamAssembler::LayOutTexts() {
  if (is_laid_out_) {
    return absl::OkStatus();
  }
  AttendRequest request;
  request.input = TextInput{std::vector<std::string>(tokens_.size())};
  request.model_output = model_output_;
  return LayOut(request);
}

absl::StatusOr<StreamAssembler::Sequence*> StreamAssembler::Find(int64_t sequence) {
  RETURN_IF_ERROR(LayOutTexts());
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
  // The server does not send rows of padding.
  if (output_.size_bytes() > 0) {
    std::memset(output_.data(), 0, output_.size_bytes());
  }
  return absl::OkStatus();
}

absl::Status StreamAssembler::Add(const StreamMessage& message) {
  return std::visit(
      [this](const auto& part) {
        if constexpr (std::is_same_v<decltype(part), const AttendResult&>) {
          return absl::InternalError("malformed answer: a summary before the last message");
        } else {
          return Add(part);
        }
      },
      message);
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
  if (rows > sequence->span.output_rows - sequence->received) {
    return Wrong("rows of a sequence", sequence->span.output_rows, sequence->received + rows);
  }
  if (block.rows.size_bytes() > 0) {
    const int64_t first_element =
        (sequence->span.first_output_row + sequence->received) * NumElements(row_shape_);
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

absl::Status StreamAssembler::Add(const LayerWeightsBlock& block) {
  ASSIGN_OR_RETURN(Sequence* const sequence, Find(block.block.sequence));
  ASSIGN_OR_RETURN(auto rows, RowsOf(block, 2, "layer weights"));
  const auto& layers = weights_choice_.layers();
  const auto& heads = weights_choice_.heads();
  const auto head = std::find(heads.begin(), heads.end(), block.head);
  if (std::find(layers.begin(), layers.end(), block.layer) == layers.end() ||
      (!heads.empty() && head == heads.end())) {
    return absl::InternalError(absl::StrCat("streamed answer: weights of layer ", block.layer,
                                            ", head ", block.head, ", which is not chosen"));
  }
  rows.head = heads.empty() ? block.head : head - heads.begin();
  return sequence->layer_weights[block.layer].Add(rows, "layer weights");
}

absl::Status StreamAssembler::Add(const TokensBlock& block) {
  if (is_laid_out_) {
    return absl::InternalError("streamed answer: tokens: expected before all rows");
  }
  if (block.sequence < 0 || block.sequence >= std::ssize(tokens_)) {
    return Wrong("sequence of tokens", std::ssize(tokens_) - 1, block.sequence);
  }
  v1::TokenizedText& text = tokens_[block.sequence];
  if (block.first_token != text.ids_size()) {
    return Wrong("first token of a block", text.ids_size(), block.first_token);
  }
  text.MergeFrom(block.tokens);
  return absl::OkStatus();
}

absl::Status StreamAssembler::FinishLayerWeights(AttendResult& result) const {
  std::map<int64_t, int64_t> num_heads;  // by layer; a sequence without rows has none of its own
  for (const int64_t layer : weights_choice_.layers()) {
    num_heads[layer] = std::max(1, weights_choice_.heads_size());
  }
  for (const Sequence& s : sequences_) {
    for (const auto& [layer, heads] : s.layer_weights) {
      num_heads[layer] = std::max(num_heads[layer], heads.num_heads());
    }
  }
  const HeadRows<float> none;
  for (int64_t i = 0; i < std::ssize(sequences_); ++i) {
    const SequenceSpan& span = sequences_[i].span;
    for (const int64_t layer : weights_choice_.layers()) {
      const auto found = sequences_[i].layer_weights.find(layer);
      const HeadRows<float>& heads =
          found == sequences_[i].layer_weights.end() ? none : found->second;
      // Weights of an encoder have the rows of the memory.
      const int64_t rows = heads.num_rows() == span.kv_len ? span.kv_len : span.query_len;
      LayerWeights& answer = result.layer_weights.emplace_back();
      answer.layer = layer;
      answer.sequence = i;
      answer.weights = Tensor(Dtype::kF32, {num_heads[layer], rows, heads.WidthOr(span.kv_len)});
      RETURN_IF_ERROR(
          heads.Join(num_heads[layer], rows, "layer weights", answer.weights.as<float>()));
    }
  }
  return absl::OkStatus();
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
  RETURN_IF_ERROR(LayOutTexts());
  for (const Sequence& sequence : sequences_) {
    if (sequence.received != sequence.span.output_rows) {
      return Wrong("rows of a sequence", sequence.span.output_rows, sequence.received);
    }
  }
  result.output = std::move(output_);
  result.tokens = std::move(tokens_);
  RETURN_IF_ERROR(FinishScores(result));
  return FinishLayerWeights(result);
}

}  // namespace attention
