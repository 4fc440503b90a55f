#include "server/services/reply/encode_reply.h"

#include <vector>

#include "core/tensor/tensor.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

void CopyTokens(const TokenizedText& text, const TokenRange& range, v1::TokenizedText& wire) {
  const auto first = text.ids.begin() + range.first_token;
  wire.mutable_ids()->Add(first, first + range.count);
  for (int64_t i = range.first_token; i < range.first_token + range.count; ++i) {
    wire.add_tokens(text.tokens[i]);
  }
}

// A part of a table: rows of a head, or all of it.
struct TableBlock {
  int64_t first_element = 0;
  Shape shape;
};

// Returns the part of the range; without a range, the whole table.
TableBlock BlockOf(const ScoreTable& table, const ScoreRange* range) {
  TableBlock block = {0, {table.num_heads, table.rows}};
  if (range != nullptr) {
    block = {(range->head * table.rows + range->first_row) * table.row_elements, {range->rows}};
  }
  if (table.kind != ScoreKind::kLogSumExp) {
    block.shape.push_back(table.row_elements);
  }
  return block;
}

void Attach(const AttendReply& reply, const TableBlock& block, size_t table_offset,
            Encoder& encoder, v1::Tensor& tensor) {
  WriteTensorHeader(v1::FP32, block.shape, tensor);
  encoder.Attach(
      reply.SliceOf(table_offset + static_cast<size_t>(block.first_element) * kTableElementBytes,
                    NumElements(block.shape) * kTableElementBytes),
      tensor);
}

void AttachTop(const AttendReply& reply, const ScoreTable& table, const TableBlock& block,
               Encoder& encoder, v1::TopWeights& top) {
  Attach(reply, block, table.offset, encoder, *top.mutable_weights());
  Attach(reply, block, table.keys_offset, encoder, *top.mutable_keys());
  top.mutable_keys()->set_dtype(v1::INT32);
}

void AddScores(const AttendReply& reply, const ScoreTable& table, Encoder& encoder,
               v1::AttendResponse& response) {
  const TableBlock block = BlockOf(table, nullptr);
  switch (table.kind) {
    case ScoreKind::kWeights:
      return Attach(reply, block, table.offset, encoder, *response.add_weights());
    case ScoreKind::kLogSumExp:
      return Attach(reply, block, table.offset, encoder, *response.add_log_sum_exp());
    case ScoreKind::kTopWeights:
      return AttachTop(reply, table, block, encoder, *response.add_top_weights());
    case ScoreKind::kLayerWeights: {
      v1::LayerWeights& weights = *response.add_layer_weights();
      weights.set_layer(table.layer);
      weights.set_sequence(table.sequence);
      return Attach(reply, block, table.offset, encoder, *weights.mutable_weights());
    }
  }
}

void WriteRows(const AttendReply& reply, const RowRange& rows, Encoder& encoder,
               v1::RowBlock& block) {
  block.set_sequence(rows.sequence);
  block.set_first_row(rows.first_row);
  Shape shape = reply.RowShape();
  shape.insert(shape.begin(), rows.rows);
  WriteTensorHeader(reply.dtype(), shape, *block.mutable_output());
  encoder.Attach(reply.RowsSlice(rows), *block.mutable_output());
}

template <typename WireBlock>
WireBlock& WritePlace(const AttendReply& reply, const ScoreRange& range, WireBlock& block) {
  block.set_sequence(reply.tables()[range.table].sequence);
  block.set_head(range.head);
  block.set_first_row(range.first_row);
  return block;
}

void WriteScores(const AttendReply& reply, const ScoreRange& range, Encoder& encoder,
                 v1::AttendStreamResponse& response) {
  const ScoreTable& table = reply.tables()[range.table];
  const TableBlock block = BlockOf(table, &range);
  switch (table.kind) {
    case ScoreKind::kWeights:
      Attach(reply, block, table.offset, encoder,
             *WritePlace(reply, range, *response.mutable_weights()).mutable_weights());
      break;
    case ScoreKind::kLogSumExp:
      Attach(reply, block, table.offset, encoder,
             *WritePlace(reply, range, *response.mutable_log_sum_exp()).mutable_log_sum_exp());
      break;
    case ScoreKind::kTopWeights:
      AttachTop(reply, table, block, encoder,
                *WritePlace(reply, range, *response.mutable_top_weights()).mutable_top_weights());
      break;
    case ScoreKind::kLayerWeights: {
      v1::LayerWeightsBlock& weights = WritePlace(reply, range, *response.mutable_layer_weights());
      weights.set_layer(table.layer);
      if (const std::vector<int64_t>& heads = reply.weights_choice().heads; !heads.empty()) {
        weights.set_head(heads[range.head]);
      }
      Attach(reply, block, table.offset, encoder, *weights.mutable_weights());
      break;
    }
  }
}

}  // namespace

grpc::ByteBuffer EncodeResponse(const AttendReply& reply, const v1::Summary& summary) {
  v1::AttendResponse response;
  Encoder encoder;
  WriteTensorHeader(reply.dtype(), reply.shape(), *response.mutable_output());
  encoder.Attach(reply.OutputSlice(), *response.mutable_output());
  for (const ScoreTable& table : reply.tables()) {
    AddScores(reply, table, encoder, response);
  }
  for (int64_t i = 0; i < std::ssize(reply.texts()); ++i) {
    const TokenizedText& text = reply.texts()[i];
    CopyTokens(text, {i, 0, std::ssize(text.ids)}, *response.add_tokens());
  }
  *response.mutable_summary() = summary;
  return encoder.Encode(response);
}

void WritePart(const AttendReply& reply, const ReplyPart& part, Encoder& encoder,
               v1::AttendStreamResponse& response) {
  if (part.tokens.has_value()) {
    v1::TokensBlock& block = *response.mutable_tokens();
    block.set_sequence(part.tokens->sequence);
    block.set_first_token(part.tokens->first_token);
    CopyTokens(reply.texts()[part.tokens->sequence], *part.tokens, *block.mutable_tokens());
  } else if (part.rows.has_value()) {
    WriteRows(reply, *part.rows, encoder, *response.mutable_rows());
  } else {
    WriteScores(reply, *part.scores, encoder, response);
  }
}

grpc::ByteBuffer EncodePart(const AttendReply& reply, const ReplyPart& part) {
  v1::AttendStreamResponse response;
  Encoder encoder;
  WritePart(reply, part, encoder, response);
  return encoder.Encode(response);
}

v1::Summary ToWire(const BatchStats& stats) {
  v1::Summary summary;
  summary.set_queue_ns(stats.queue_ns);
  summary.set_compute_ns(stats.compute_ns);
  summary.set_batch_id(stats.batch_id);
  summary.set_batch_requests(stats.batch_requests);
  summary.set_batch_sequences(stats.batch_sequences);
  summary.set_batch_tokens(stats.batch_tokens);
  summary.set_cached_tokens(stats.cached_tokens);
  summary.set_cached_sequences(stats.cached_sequences);
  summary.set_cached_bytes(stats.cached_bytes);
  return summary;
}

grpc::ByteBuffer EncodeSummary(const v1::Summary& summary) {
  v1::AttendStreamResponse response;
  *response.mutable_summary() = summary;
  return Encoder().Encode(response);
}

}  // namespace attention
