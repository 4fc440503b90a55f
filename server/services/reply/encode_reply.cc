// The messages of an answer.
#include <algorithm>

#include "server/services/reply/attend_reply.h"

namespace attention {
namespace {

// Leaves room for the fields around the rows, so that the message, too, is at most 1 MiB.
constexpr size_t kMaxBlockBytes = (size_t{1} << 20) - 256;

int64_t RowsPerBlock(size_t row_bytes) {
  return static_cast<int64_t>(std::max<size_t>(1, kMaxBlockBytes / std::max<size_t>(1, row_bytes)));
}

// Of a token in a message, beside its text: an id, tags and a length.
constexpr size_t kTokenBytes = 16;

void CopyTokens(const TokenizedText& text, const TokenRange& range, v1::TokenizedText& wire) {
  const auto first = text.ids.begin() + range.first_token;
  wire.mutable_ids()->Add(first, first + range.count);
  for (int64_t i = range.first_token; i < range.first_token + range.count; ++i) {
    wire.add_tokens(text.tokens[i]);
  }
}

}  // namespace

AttendReply::Block AttendReply::BlockOf(const ScoreTable& table, const ScoreRange* range) {
  Block block = {0, {table.num_heads, table.rows}};
  if (range != nullptr) {
    block = {(range->head * table.rows + range->first_row) * table.row_elements, {range->rows}};
  }
  if (table.kind != ScoreKind::kLogSumExp) {
    block.shape.push_back(table.row_elements);
  }
  return block;
}

void AttendReply::Attach(const Block& block, size_t table_offset, Encoder& encoder,
                         v1::Tensor& tensor) const {
  WriteTensorHeader(v1::FP32, block.shape, tensor);
  encoder.Attach(
      SliceOf(table_offset + static_cast<size_t>(block.first_element) * kTableElementBytes,
              NumElements(block.shape) * kTableElementBytes),
      tensor);
}

void AttendReply::AttachTop(const ScoreTable& table, const Block& block, Encoder& encoder,
                            v1::TopWeights& top) const {
  Attach(block, table.offset, encoder, *top.mutable_weights());
  Attach(block, table.keys_offset, encoder, *top.mutable_keys());
  top.mutable_keys()->set_dtype(v1::INT32);
}

void AttendReply::AddScores(const ScoreTable& table, Encoder& encoder,
                            v1::AttendResponse& response) const {
  const Block block = BlockOf(table, nullptr);
  switch (table.kind) {
    case ScoreKind::kWeights:
      return Attach(block, table.offset, encoder, *response.add_weights());
    case ScoreKind::kLogSumExp:
      return Attach(block, table.offset, encoder, *response.add_log_sum_exp());
    case ScoreKind::kTopWeights:
      return AttachTop(table, block, encoder, *response.add_top_weights());
    case ScoreKind::kLayerWeights: {
      v1::LayerWeights& weights = *response.add_layer_weights();
      weights.set_layer(table.layer);
      weights.set_sequence(table.sequence);
      return Attach(block, table.offset, encoder, *weights.mutable_weights());
    }
  }
}

grpc::ByteBuffer AttendReply::EncodeResponse(const v1::Summary& summary) const {
  v1::AttendResponse response;
  Encoder encoder;
  WriteTensorHeader(dtype_, shape_, *response.mutable_output());
  encoder.Attach(SliceOf(0, output_bytes_), *response.mutable_output());
  for (const ScoreTable& table : tables_) {
    AddScores(table, encoder, response);
  }
  for (size_t i = 0; texts_ != nullptr && i < texts_->size(); ++i) {
    const TokenizedText& text = (*texts_)[i];
    CopyTokens(text, {static_cast<int64_t>(i), 0, std::ssize(text.ids)}, *response.add_tokens());
  }
  *response.mutable_summary() = summary;
  return encoder.Encode(response);
}

void AttendReply::WriteRows(const RowRange& rows, Encoder& encoder, v1::RowBlock& block) const {
  block.set_sequence(rows.sequence);
  block.set_first_row(rows.first_row);
  Shape shape = {rows.rows};
  shape.insert(shape.end(), shape_.end() - row_axes_, shape_.end());
  WriteTensorHeader(dtype_, shape, *block.mutable_output());
  const int64_t first = outputs_[rows.sequence].first_row + rows.first_row;
  encoder.Attach(SliceOf(first * RowBytes(), rows.rows * RowBytes()), *block.mutable_output());
}

template <typename WireBlock>
WireBlock& AttendReply::WritePlace(const ScoreRange& range, WireBlock& block) const {
  block.set_sequence(tables_[range.table].sequence);
  block.set_head(range.head);
  block.set_first_row(range.first_row);
  return block;
}

void AttendReply::WriteScores(const ScoreRange& range, Encoder& encoder,
                              v1::AttendStreamResponse& response) const {
  const ScoreTable& table = tables_[range.table];
  const Block block = BlockOf(table, &range);
  switch (table.kind) {
    case ScoreKind::kWeights:
      Attach(block, table.offset, encoder,
             *WritePlace(range, *response.mutable_weights()).mutable_weights());
      break;
    case ScoreKind::kLogSumExp:
      Attach(block, table.offset, encoder,
             *WritePlace(range, *response.mutable_log_sum_exp()).mutable_log_sum_exp());
      break;
    case ScoreKind::kTopWeights:
      AttachTop(table, block, encoder,
                *WritePlace(range, *response.mutable_top_weights()).mutable_top_weights());
      break;
    case ScoreKind::kLayerWeights: {
      v1::LayerWeightsBlock& weights = WritePlace(range, *response.mutable_layer_weights());
      weights.set_layer(table.layer);
      if (!weights_choice_.heads.empty()) {
        weights.set_head(weights_choice_.heads[range.head]);
      }
      Attach(block, table.offset, encoder, *weights.mutable_weights());
      break;
    }
  }
}

void AttendReply::WritePart(const ReplyPart& part, Encoder& encoder,
                            v1::AttendStreamResponse& response) const {
  if (part.tokens.has_value()) {
    v1::TokensBlock& block = *response.mutable_tokens();
    block.set_sequence(part.tokens->sequence);
    block.set_first_token(part.tokens->first_token);
    CopyTokens((*texts_)[part.tokens->sequence], *part.tokens, *block.mutable_tokens());
  } else if (part.rows.has_value()) {
    WriteRows(*part.rows, encoder, *response.mutable_rows());
  } else {
    WriteScores(*part.scores, encoder, response);
  }
}

grpc::ByteBuffer AttendReply::EncodePart(const ReplyPart& part) const {
  v1::AttendStreamResponse response;
  Encoder encoder;
  WritePart(part, encoder, response);
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
  while (next.table < std::ssize(tables_)) {
    const ScoreTable& table = tables_[next.table];
    if (next.head == table.num_heads || table.rows == 0) {
      next = {.table = next.table + 1};
    } else if (next.first_row == table.rows) {
      next = {.table = next.table, .head = next.head + 1};
    } else {
      const int64_t elements =
          table.kind == ScoreKind::kTopWeights ? 2 * table.row_elements : table.row_elements;
      next.rows =
          std::min(RowsPerBlock(elements * kTableElementBytes), table.rows - next.first_row);
      return next;
    }
  }
  return std::nullopt;
}

std::optional<TokenRange> AttendReply::NextTokens(const TokenRange& last) const {
  TokenRange next = {last.sequence, last.first_token + last.count, 0};
  while (texts_ != nullptr && next.sequence < std::ssize(*texts_)) {
    const std::vector<std::string>& tokens = (*texts_)[next.sequence].tokens;
    size_t bytes = 0;
    for (int64_t i = next.first_token; i < std::ssize(tokens); ++i) {
      bytes += tokens[i].size() + kTokenBytes;
      if (bytes > kMaxBlockBytes && next.count > 0) {
        break;
      }
      ++next.count;
    }
    if (next.count > 0) {
      return next;
    }
    next = {.sequence = next.sequence + 1};
  }
  return std::nullopt;
}

v1::Summary ToWire(const BatchStats& stats) {
  v1::Summary summary;
  summary.set_queue_ns(stats.queue_ns);
  summary.set_compute_ns(stats.compute_ns);
  summary.set_batch_id(stats.batch_id);
  summary.set_batch_requests(stats.batch_requests);
  summary.set_batch_sequences(stats.batch_sequences);
  summary.set_batch_tokens(stats.batch_tokens);
  return summary;
}

grpc::ByteBuffer EncodeSummary(const v1::Summary& summary) {
  v1::AttendStreamResponse response;
  *response.mutable_summary() = summary;
  return Encoder().Encode(response);
}

}  // namespace attention
