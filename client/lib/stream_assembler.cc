#include "client/lib/stream_assembler.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/lib/answer_shape.h"
#include "client/lib/malformed_answer.h"
#include "core/runtime/contain.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

absl::Status Wrong(const char* what, int64_t expected, int64_t found) {
  return MalformedAnswer(what, ": expected ", expected, ", found ", found);
}

absl::Status WrongIndex(const char* what, int64_t count, int64_t found) {
  return MalformedAnswer(what, ": expected one of ", count, ", counted from 0, found ", found);
}

/// Returns the name of the kind in errors.
const char* NameOf(ScoresBlock::Kind kind) {
  static constexpr const char* kNames[] = {"weights", "log_sum_exp", "top_weights",
                                           "layer_weights"};
  return kNames[static_cast<size_t>(kind)];
}

absl::StatusOr<HeadRows<float>::Block> RowsOf(const ScoresBlock& block) {
  const Tensor& rows = block.block.rows;
  if (rows.shape()[0] == 0) {  // its width would be that of nothing
    return Wrong("rows of a block of scores, at least", 1, 0);
  }
  return HeadRows<float>::Block{
      block.head, block.block.first_row, rows.shape().size() == 1 ? 1 : rows.shape()[1],
      std::span<const float>(rows.as<float>(), static_cast<size_t>(rows.num_elements()))};
}

}  // namespace

absl::StatusOr<StreamAssembler> StreamAssembler::Create(const AttendRequest& request,
                                                        bool has_output, bool has_options) {
  StreamAssembler assembler;
  assembler.has_options_ = has_options;
  assembler.has_output_ = has_output;
  assembler.model_output_ = request.model_output;
  assembler.weights_choice_ = request.weights_choice;
  assembler.weights_top_k_ = request.options.weights_top_k();
  const auto& options = request.options;
  for (const auto& [is_asked, kind] :
       {std::pair(options.return_weights(), ScoresBlock::Kind::kWeights),
        std::pair(options.return_log_sum_exp(), ScoresBlock::Kind::kLogSumExp),
        std::pair(options.weights_top_k() > 0, ScoresBlock::Kind::kTopWeights)}) {
    if (is_asked) {
      assembler.asked_.insert(kind);
    }
  }
  if (const auto* input = std::get_if<TextInput>(&request.input)) {
    assembler.tokens_.resize(input->texts.size());
  } else {
    RETURN_IF_ERROR(assembler.LayOut(request));
  }
  assembler.query_heads_ = has_output ? std::max<int64_t>(0, QueryHeads(request)) : 0;
  return assembler;
}

absl::Status StreamAssembler::LayOut(const AttendRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<SequenceSpan> spans, SequencesOf(request, tokens_));
  leading_ = LeadingExtents(request, spans);
  const AnswerRows rows = AnswerRowsOf(request);
  dtype_ = rows.dtype;
  row_shape_ = rows.shape;
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
  if (!has_output_) {
    return MalformedAnswer("parts of a step without output: expected tokens only, found others");
  }
  RETURN_IF_ERROR(LayOutTexts());
  if (sequence < 0 || sequence >= std::ssize(sequences_)) {
    return WrongIndex("sequence", std::ssize(sequences_), sequence);
  }
  return &sequences_[sequence];
}

absl::Status StreamAssembler::Allocate(Dtype dtype) {
  Shape shape = leading_;
  shape.insert(shape.end(), row_shape_.begin(), row_shape_.end());
  const bool fits = CheckedBytes(shape, static_cast<int64_t>(SizeOf(dtype))).has_value() &&
                    ContainVoid("joining a streamed answer", [&] {
                      output_.emplace(dtype, shape);
                      if (output_->size_bytes() > 0) {
                        std::memset(output_->data(), 0, output_->size_bytes());
                      }
                    }).ok();
  return fits ? absl::OkStatus()
              : MalformedAnswer("width of a block: expected one that fits into memory, found ",
                                ShapeText(row_shape_), " for an output ", ShapeText(shape));
}

absl::Status StreamAssembler::Add(const StreamMessage& message) {
  return std::visit(
      [this](const auto& part) {
        if constexpr (std::is_same_v<decltype(part), const v1::Summary&>) {
          return MalformedAnswer("a summary before the last message");
        } else {
          return Add(part);
        }
      },
      message);
}

absl::Status StreamAssembler::Add(const RowBlock& block) {
  ASSIGN_OR_RETURN(Sequence* const sequence, Find(block.sequence));
  const Shape& shape = block.rows.shape();
  const int64_t rows = shape.empty() ? 0 : shape[0];
  if (rows == 0) {  // its width would be that of nothing
    return Wrong("rows of a block, at least", 1, rows);
  }
  RETURN_IF_ERROR(CheckShape("a block", {rows}, row_shape_, shape));
  if (!output_.has_value()) {
    row_shape_.assign(shape.begin() + 1, shape.end());
    RETURN_IF_ERROR(Allocate(block.rows.dtype()));
  }
  if (block.rows.dtype() != output_->dtype()) {
    return MalformedAnswer("dtype of a block: expected ", std::string(Name(output_->dtype())),
                           " (of the first block), found ", std::string(Name(block.rows.dtype())));
  }
  if (block.first_row != sequence->received) {
    return Wrong("first row of a block", sequence->received, block.first_row);
  }
  if (rows > sequence->span.output_rows - sequence->received) {
    return Wrong("rows of a sequence", sequence->span.output_rows, sequence->received + rows);
  }
  if (block.rows.size_bytes() > 0) {
    const int64_t first_element =
        (sequence->span.first_output_row + sequence->received) * NumElements(row_shape_);
    std::memcpy(ElementAt(output_->data(), output_->dtype(), first_element), block.rows.data(),
                block.rows.size_bytes());
  }
  sequence->received += rows;
  return absl::OkStatus();
}

absl::Status StreamAssembler::Add(const ScoresBlock& block) {
  ASSIGN_OR_RETURN(Sequence* const sequence, Find(block.block.sequence));
  ASSIGN_OR_RETURN(HeadRows<float>::Block rows, RowsOf(block));
  const bool is_layer = block.kind == ScoresBlock::Kind::kLayerWeights;
  if (is_layer) {
    ASSIGN_OR_RETURN(rows.head, ChosenHead(block));
  } else if (has_options_ && !asked_.contains(block.kind)) {
    return MalformedAnswer(NameOf(block.kind), ": expected none, found some");
  } else if (query_heads_ > 0 && block.head >= query_heads_) {
    return WrongIndex("head of scores", query_heads_, block.head);
  }
  HeadRows<float>& heads = sequence->scores[{block.kind, block.layer}];
  RETURN_IF_ERROR(heads.Add(rows, NameOf(block.kind)));
  const SequenceSpan& span = sequence->span;  // weights of an encoder have the rows of the memory
  const int64_t most = is_layer ? std::max(span.query_len, span.kv_len) : span.query_len;
  const int64_t end = rows.first_row + block.block.rows.shape()[0];
  if (end > most) {
    return MalformedAnswer("rows of a head of ", NameOf(block.kind), ": expected at most ", most,
                           ", found ", end);
  }
  return block.kind == ScoresBlock::Kind::kTopWeights
             ? sequence->top_keys.Add({rows.head, rows.first_row, rows.width, block.keys},
                                      "their keys")
             : absl::OkStatus();
}

absl::StatusOr<int64_t> StreamAssembler::ChosenHead(const ScoresBlock& block) const {
  const auto& layers = weights_choice_.layers();
  const auto& heads = weights_choice_.heads();
  const auto head = std::find(heads.begin(), heads.end(), block.head);
  if (std::find(layers.begin(), layers.end(), block.layer) == layers.end() ||
      (!heads.empty() && head == heads.end())) {
    return MalformedAnswer("layer_weights: expected those of a chosen layer and head, found layer ",
                           block.layer, ", head ", block.head);
  }
  return heads.empty() ? block.head : head - heads.begin();
}

absl::Status StreamAssembler::Add(const TokensBlock& block) {
  if (is_laid_out_) {
    return MalformedAnswer("tokens: expected before all rows, found behind some");
  }
  if (block.sequence < 0 || block.sequence >= std::ssize(tokens_)) {
    return WrongIndex("sequence of tokens", std::ssize(tokens_), block.sequence);
  }
  v1::TokenizedText& text = tokens_[block.sequence];
  if (block.first_token != text.ids_size()) {
    return Wrong("first token of a block", text.ids_size(), block.first_token);
  }
  text.MergeFrom(block.tokens);
  return absl::OkStatus();
}

int64_t StreamAssembler::NumHeads(const ScoresKey& key) const {
  const bool is_layer = key.first == ScoresBlock::Kind::kLayerWeights;
  int64_t num_heads = is_layer                     ? std::max(1, weights_choice_.heads_size())
                      : asked_.contains(key.first) ? query_heads_
                                                   : 0;
  for (const Sequence& sequence : sequences_) {
    const auto found = sequence.scores.find(key);
    num_heads = std::max(num_heads, found == sequence.scores.end() ? 0 : found->second.num_heads());
  }
  return num_heads;
}

absl::StatusOr<Tensor> StreamAssembler::Joined(const Sequence& sequence, const ScoresKey& key,
                                               int64_t rows, int64_t width) const {
  static const HeadRows<float> kNone;
  const auto found = sequence.scores.find(key);
  const HeadRows<float>& heads = found == sequence.scores.end() ? kNone : found->second;
  Shape shape = {NumHeads(key), rows};
  if (key.first != ScoresBlock::Kind::kLogSumExp) {
    shape.push_back(heads.WidthOr(width));
  }
  RETURN_IF_ERROR(heads.CheckWhole(shape[0], rows, NameOf(key.first)));
  Tensor joined(Dtype::kF32, shape);
  heads.Join(joined.as<float>());
  return joined;
}

absl::Status StreamAssembler::FinishScores(const Sequence& sequence, AttendResult& result) const {
  constexpr ScoresKey kWeights = {ScoresBlock::Kind::kWeights, 0};
  constexpr ScoresKey kLogSumExp = {ScoresBlock::Kind::kLogSumExp, 0};
  constexpr ScoresKey kTopWeights = {ScoresBlock::Kind::kTopWeights, 0};
  const int64_t rows = sequence.span.query_len, keys = sequence.span.kv_len;
  for (const ScoresKey& key : {kWeights, kLogSumExp, kTopWeights}) {
    // Tables without elements do not come.
    if (asked_.contains(key.first) && sequence.scores.count(key) == 0 && rows > 0 &&
        (keys > 0 || key == kLogSumExp)) {
      return MalformedAnswer(NameOf(key.first), ": expected those that were asked for, found none");
    }
  }
  if (NumHeads(kWeights) > 0) {
    ASSIGN_OR_RETURN(result.weights.emplace_back(), Joined(sequence, kWeights, rows, keys));
  }
  if (NumHeads(kLogSumExp) > 0) {
    ASSIGN_OR_RETURN(result.log_sum_exp.emplace_back(), Joined(sequence, kLogSumExp, rows, 1));
  }
  if (NumHeads(kTopWeights) > 0) {
    LargestWeights& top = result.top_weights.emplace_back();
    ASSIGN_OR_RETURN(top.weights,
                     Joined(sequence, kTopWeights, rows, std::min(weights_top_k_, keys)));
    RETURN_IF_ERROR(sequence.top_keys.CheckWhole(top.weights.shape()[0], rows, "keys"));
    top.keys.resize(top.weights.num_elements());
    sequence.top_keys.Join(top.keys.data());
  }
  return absl::OkStatus();
}

absl::Status StreamAssembler::FinishLayerWeights(int64_t index, AttendResult& result) const {
  const Sequence& sequence = sequences_[index];
  for (const int64_t layer : weights_choice_.layers()) {
    const ScoresKey key = {ScoresBlock::Kind::kLayerWeights, layer};
    const auto found = sequence.scores.find(key);
    // Weights of an encoder have the rows of the memory.
    const int64_t keys = sequence.span.kv_len;
    const bool is_encoder = found != sequence.scores.end() && found->second.num_rows() == keys;
    ASSIGN_OR_RETURN(Tensor weights,
                     Joined(sequence, key, is_encoder ? keys : sequence.span.query_len, keys));
    result.layer_weights.push_back({layer, index, std::move(weights)});
  }
  return absl::OkStatus();
}

absl::Status StreamAssembler::Finish(AttendResult& result) {
  if (!has_output_) {
    result.tokens = std::move(tokens_);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(LayOutTexts());
  for (const Sequence& sequence : sequences_) {
    if (sequence.received != sequence.span.output_rows) {
      return Wrong("rows of a sequence", sequence.span.output_rows, sequence.received);
    }
  }
  if (!output_.has_value()) {
    std::ranges::replace(row_shape_, kAnyExtent, int64_t{0});
    RETURN_IF_ERROR(Allocate(dtype_));
  }
  result.output = *std::move(output_);
  result.tokens = std::move(tokens_);
  for (int64_t i = 0; i < std::ssize(sequences_); ++i) {
    RETURN_IF_ERROR(FinishScores(sequences_[i], result));
    RETURN_IF_ERROR(FinishLayerWeights(i, result));
  }
  return absl::OkStatus();
}

}  // namespace attention
