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

constexpr std::pair kWeights(ScoresBlock::Kind::kWeights, int64_t{0});
constexpr std::pair kLogSumExp(ScoresBlock::Kind::kLogSumExp, int64_t{0});
constexpr std::pair kTopWeights(ScoresBlock::Kind::kTopWeights, int64_t{0});

absl::StatusOr<HeadRows<float>::Block> RowsOf(const ScoresBlock& block) {
  const Tensor& rows = block.block.rows;
  if (rows.shape()[0] == 0) {  // its width would be that of nothing
    return Wrong("rows of a block of scores, at least", 1, 0);
  }
  return HeadRows<float>::Block{
      block.head, block.block.first_row, rows.shape()[0],
      rows.shape().size() == 1 ? 1 : rows.shape()[1],
      std::span<const float>(rows.as<float>(), static_cast<size_t>(rows.num_elements()))};
}

}  // namespace

absl::StatusOr<StreamAssembler> StreamAssembler::Create(const AttendRequest& request,
                                                        bool has_output, bool has_options,
                                                        bool joins) {
  StreamAssembler assembler;
  assembler.joins_ = joins;
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
  Shape shape = joins_ ? leading_ : Shape{0};
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
  if (joins_ && block.rows.size_bytes() > 0) {
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
  if (!joins_) {
    rows.elements = {};
  }
  HeadRows<float>& heads = sequence->scores[{block.kind, block.layer}];
  RETURN_IF_ERROR(heads.Add(rows, NameOf(block.kind)));
  int64_t& num_heads = num_heads_[{block.kind, block.layer}];
  num_heads = std::max(num_heads, heads.num_heads());
  const SequenceSpan& span = sequence->span;  // weights of an encoder have the rows of the memory
  const int64_t most = is_layer ? std::max(span.query_len, span.kv_len) : span.query_len;
  const int64_t end = rows.first_row + rows.rows;
  if (end > most) {
    return MalformedAnswer("rows of a head of ", NameOf(block.kind), ": expected at most ", most,
                           ", found ", end);
  }
  return joins_ && block.kind == ScoresBlock::Kind::kTopWeights
             ? sequence->top_keys.Add(
                   {rows.head, rows.first_row, rows.rows, rows.width, block.keys}, "their keys")
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
  const int64_t known = is_layer                     ? std::max(1, weights_choice_.heads_size())
                        : asked_.contains(key.first) ? query_heads_
                                                     : 0;
  const auto found = num_heads_.find(key);
  return std::max(known, found == num_heads_.end() ? 0 : found->second);
}

int64_t StreamAssembler::RowsOfHead(const Sequence& sequence, const ScoresKey& key) {
  const auto found = sequence.scores.find(key);
  // Weights of an encoder have the rows of the memory.
  const bool is_encoder = key.first == ScoresBlock::Kind::kLayerWeights &&
                          found != sequence.scores.end() &&
                          found->second.num_rows() == sequence.span.kv_len;
  return is_encoder ? sequence.span.kv_len : sequence.span.query_len;
}

absl::Status StreamAssembler::CheckScores(const Sequence& sequence) const {
  const auto check = [&](const ScoresKey& key) {
    static const HeadRows<float> kNone;
    const auto found = sequence.scores.find(key);
    return (found == sequence.scores.end() ? kNone : found->second)
        .CheckWhole(NumHeads(key), RowsOfHead(sequence, key), NameOf(key.first));
  };
  for (const ScoresKey& key : {kWeights, kLogSumExp, kTopWeights}) {
    // Tables without elements do not come.
    if (asked_.contains(key.first) && sequence.scores.count(key) == 0 &&
        sequence.span.query_len > 0 && (sequence.span.kv_len > 0 || key == kLogSumExp)) {
      return MalformedAnswer(NameOf(key.first), ": expected those that were asked for, found none");
    }
    RETURN_IF_ERROR(check(key));
  }
  for (const int64_t layer : weights_choice_.layers()) {
    RETURN_IF_ERROR(check({ScoresBlock::Kind::kLayerWeights, layer}));
  }
  return absl::OkStatus();
}

absl::Status StreamAssembler::CheckWhole() const {
  for (const Sequence& sequence : sequences_) {
    if (sequence.received != sequence.span.output_rows) {
      return Wrong("rows of a sequence", sequence.span.output_rows, sequence.received);
    }
  }
  for (const Sequence& sequence : sequences_) {
    RETURN_IF_ERROR(CheckScores(sequence));
  }
  return absl::OkStatus();
}

Tensor StreamAssembler::Joined(const Sequence& sequence, const ScoresKey& key,
                               int64_t width) const {
  const auto found = sequence.scores.find(key);
  const bool has_blocks = found != sequence.scores.end();
  Shape shape = {NumHeads(key), RowsOfHead(sequence, key)};
  if (key != kLogSumExp) {
    shape.push_back(has_blocks ? found->second.WidthOr(width) : width);
  }
  Tensor joined(Dtype::kF32, shape);
  if (has_blocks) {
    found->second.Join(joined.as<float>());
  }
  return joined;
}

void StreamAssembler::JoinScores(int64_t index, AttendResult& result) const {
  const Sequence& sequence = sequences_[index];
  const int64_t keys = sequence.span.kv_len;
  if (NumHeads(kWeights) > 0) {
    result.weights.push_back(Joined(sequence, kWeights, keys));
  }
  if (NumHeads(kLogSumExp) > 0) {
    result.log_sum_exp.push_back(Joined(sequence, kLogSumExp, 1));
  }
  if (NumHeads(kTopWeights) > 0) {
    LargestWeights& top = result.top_weights.emplace_back();
    top.weights = Joined(sequence, kTopWeights, std::min(weights_top_k_, keys));
    top.keys.resize(top.weights.num_elements());
    sequence.top_keys.Join(top.keys.data());
  }
  for (const int64_t layer : weights_choice_.layers()) {
    result.layer_weights.push_back(
        {layer, index, Joined(sequence, {ScoresBlock::Kind::kLayerWeights, layer}, keys)});
  }
}

absl::Status StreamAssembler::Finish(AttendResult& result) {
  if (!has_output_) {
    result.tokens = std::move(tokens_);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(LayOutTexts());
  RETURN_IF_ERROR(CheckWhole());
  if (!joins_) {
    return absl::OkStatus();
  }
  if (!output_.has_value()) {
    std::ranges::replace(row_shape_, kAnyExtent, int64_t{0});
    RETURN_IF_ERROR(Allocate(dtype_));
  }
  result.output = *std::move(output_);
  result.tokens = std::move(tokens_);
  for (int64_t i = 0; i < std::ssize(sequences_); ++i) {
    JoinScores(i, result);
  }
  return absl::OkStatus();
}

}  // namespace attention
