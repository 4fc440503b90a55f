#include "client/lib/answer_codec.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/malformed_answer.h"
#include "client/lib/stream_assembler.h"
#include "core/runtime/status_macros.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/envelope.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

absl::Status Malformed(const absl::Status& status) { return MalformedAnswer(status.message()); }

template <typename M>
absl::StatusOr<Received<M>> DecodeMessage(const grpc::ByteBuffer& bytes) {
  absl::StatusOr<Received<M>> received = Decode<M>(bytes);
  return received.ok() ? std::move(received) : Malformed(received.status());
}

using Bytes = std::shared_ptr<const ReceivedBytes>;

absl::StatusOr<Tensor> CopyOf(const Bytes& bytes, const v1::Tensor& wire, const char* name) {
  const absl::StatusOr<ReceivedTensor> tensor =
      ReadTensor(wire, ResolvePayload(wire.data(), bytes), name);
  if (!tensor.ok()) {
    return Malformed(tensor.status());
  }
  return CopyTensor(*tensor);
}

/// Reads weights or log-sum-exps, which are FP32 whatever the rows are.
absl::StatusOr<Tensor> ScoresOf(const Bytes& bytes, const v1::Tensor& wire, const char* name) {
  if (wire.dtype() != v1::FP32) {
    return MalformedAnswer(name, ".dtype: expected FP32, found ", DtypeText(wire.dtype()));
  }
  return CopyOf(bytes, wire, name);
}

absl::StatusOr<std::vector<int32_t>> KeysOf(const Bytes& bytes, const v1::TopWeights& wire) {
  const absl::StatusOr<ReceivedElements> keys = ReadElements(
      wire.keys(), ResolvePayload(wire.keys().data(), bytes), v1::INT32, "top_weights.keys");
  if (!keys.ok()) {
    return Malformed(keys.status());
  }
  if (!std::equal(keys->shape.begin(), keys->shape.end(), wire.weights().shape().begin(),
                  wire.weights().shape().end())) {
    return MalformedAnswer("top_weights.keys: expected the shape of weights, [",
                           absl::StrJoin(wire.weights().shape(), ", "), "], found ",
                           ShapeText(keys->shape));
  }
  std::vector<int32_t> values(keys->payload.size_bytes() / sizeof(int32_t));
  keys->payload.CopyTo(0, keys->payload.size_bytes(), values.data());
  return values;
}

/// Returns an error unless the rows of a block have one of the ranks.
absl::Status CheckRank(const Tensor& rows, std::initializer_list<size_t> ranks, const char* name) {
  return std::ranges::find(ranks, rows.shape().size()) != ranks.end()
             ? absl::OkStatus()
             : MalformedAnswer(name, ".shape: expected one of rank ", absl::StrJoin(ranks, " or "),
                               ", found ", ShapeText(rows.shape()));
}

template <typename Texts>
absl::Status CheckTokens(const Texts& texts) {
  for (const v1::TokenizedText& text : texts) {
    if (text.ids_size() != text.tokens_size()) {
      return MalformedAnswer("tokens: expected one for each of ", text.ids_size(), " ids, found ",
                             text.tokens_size());
    }
  }
  return absl::OkStatus();
}

/// Reads the rows of one head, which are in `tensor`, a field of `wire`.
template <typename Wire>
absl::StatusOr<ScoresBlock> ReadScores(ScoresBlock::Kind kind, const Wire& wire,
                                       const v1::Tensor& tensor, const Bytes& bytes) {
  ScoresBlock scores{.kind = kind, .head = wire.head()};
  scores.block = {wire.sequence(), wire.first_row(), Tensor()};
  const std::string name(wire.GetTypeName());
  ASSIGN_OR_RETURN(scores.block.rows, ScoresOf(bytes, tensor, name.c_str()));
  const size_t rank = kind == ScoresBlock::Kind::kLogSumExp ? 1 : 2;
  RETURN_IF_ERROR(CheckRank(scores.block.rows, {rank}, name.c_str()));
  return scores;
}

absl::StatusOr<StreamMessage> ReadStreamMessage(const v1::AttendStreamResponse& message,
                                                const Bytes& bytes) {
  switch (message.part_case()) {
    case v1::AttendStreamResponse::kRows: {
      RowBlock block{message.rows().sequence(), message.rows().first_row(), Tensor()};
      ASSIGN_OR_RETURN(block.rows, CopyOf(bytes, message.rows().output(), "rows.output"));
      RETURN_IF_ERROR(CheckRank(block.rows, {2, 3}, "rows.output"));
      return StreamMessage(std::move(block));
    }
    case v1::AttendStreamResponse::kWeights:
      return ReadScores(ScoresBlock::Kind::kWeights, message.weights(), message.weights().weights(),
                        bytes);
    case v1::AttendStreamResponse::kLogSumExp:
      return ReadScores(ScoresBlock::Kind::kLogSumExp, message.log_sum_exp(),
                        message.log_sum_exp().log_sum_exp(), bytes);
    case v1::AttendStreamResponse::kTopWeights: {
      const v1::TopWeightsBlock& wire = message.top_weights();
      ASSIGN_OR_RETURN(ScoresBlock scores, ReadScores(ScoresBlock::Kind::kTopWeights, wire,
                                                      wire.top_weights().weights(), bytes));
      ASSIGN_OR_RETURN(scores.keys, KeysOf(bytes, wire.top_weights()));
      return scores;
    }
    case v1::AttendStreamResponse::kLayerWeights: {
      const v1::LayerWeightsBlock& wire = message.layer_weights();
      ASSIGN_OR_RETURN(ScoresBlock scores,
                       ReadScores(ScoresBlock::Kind::kLayerWeights, wire, wire.weights(), bytes));
      scores.layer = wire.layer();
      return scores;
    }
    case v1::AttendStreamResponse::kTokens: {
      const v1::TokensBlock& wire = message.tokens();
      RETURN_IF_ERROR(CheckTokens(std::span(&wire.tokens(), 1)));
      return StreamMessage(TokensBlock{wire.sequence(), wire.first_token(), wire.tokens()});
    }
    case v1::AttendStreamResponse::kSummary:
      return StreamMessage(message.summary());
    case v1::AttendStreamResponse::PART_NOT_SET:
      break;
  }
  return MalformedAnswer("a message of the stream has no part");
}

}  // namespace

absl::StatusOr<AttendResult> DecodeAnswer(const grpc::ByteBuffer& bytes) {
  ASSIGN_OR_RETURN(const Received<v1::AttendResponse> received,
                   DecodeMessage<v1::AttendResponse>(bytes));
  AttendResult result;
  ASSIGN_OR_RETURN(result.output, CopyOf(received.bytes, received.message.output(), "output"));
  for (const v1::Tensor& wire : received.message.weights()) {
    ASSIGN_OR_RETURN(result.weights.emplace_back(), ScoresOf(received.bytes, wire, "weights"));
  }
  for (const v1::Tensor& wire : received.message.log_sum_exp()) {
    ASSIGN_OR_RETURN(result.log_sum_exp.emplace_back(),
                     ScoresOf(received.bytes, wire, "log_sum_exp"));
  }
  for (const v1::TopWeights& wire : received.message.top_weights()) {
    LargestWeights& top = result.top_weights.emplace_back();
    ASSIGN_OR_RETURN(top.weights, ScoresOf(received.bytes, wire.weights(), "top_weights.weights"));
    ASSIGN_OR_RETURN(top.keys, KeysOf(received.bytes, wire));
  }
  for (const v1::LayerWeights& wire : received.message.layer_weights()) {
    LayerWeights& layer = result.layer_weights.emplace_back();
    layer.layer = wire.layer();
    layer.sequence = wire.sequence();
    ASSIGN_OR_RETURN(layer.weights,
                     ScoresOf(received.bytes, wire.weights(), "layer_weights.weights"));
  }
  RETURN_IF_ERROR(CheckTokens(received.message.tokens()));
  result.tokens.assign(received.message.tokens().begin(), received.message.tokens().end());
  if (!received.message.has_summary()) {
    return NotSent("summary");
  }
  result.summary = received.message.summary();
  return result;
}

template <typename Answer>
absl::StatusOr<v1::Summary> DecodeSummary(const grpc::ByteBuffer& bytes) {
  Answer message;
  const absl::Status status = DecodeEnvelope(bytes, EnvelopeFieldsOf<Answer>(), message);
  if (!status.ok()) {
    return Malformed(status);
  }
  return message.has_summary() ? absl::StatusOr<v1::Summary>(message.summary())
                               : NotSent("summary");
}
template absl::StatusOr<v1::Summary> DecodeSummary<v1::AttendResponse>(const grpc::ByteBuffer&);
template absl::StatusOr<v1::Summary> DecodeSummary<v1::AttendStreamResponse>(
    const grpc::ByteBuffer&);

absl::StatusOr<StreamMessage> DecodeStreamMessage(const grpc::ByteBuffer& bytes) {
  ASSIGN_OR_RETURN(const Received<v1::AttendStreamResponse> received,
                   DecodeMessage<v1::AttendStreamResponse>(bytes));
  return ReadStreamMessage(received.message, received.bytes);
}

absl::StatusOr<SessionMessage> DecodeSessionMessage(const grpc::ByteBuffer& bytes) {
  ASSIGN_OR_RETURN(Received<v1::DecodeResponse> received, DecodeMessage<v1::DecodeResponse>(bytes));
  v1::DecodeResponse& message = received.message;
  SessionMessage answer{message.id(), message.sequence(), {}, {}};
  if (message.has_part()) {
    message.mutable_parts()->Add()->Swap(message.mutable_part());
  }
  for (const v1::AttendStreamResponse& wire : message.parts()) {
    ASSIGN_OR_RETURN(StreamMessage part, ReadStreamMessage(wire, received.bytes));
    answer.parts.push_back(std::move(part));
  }
  if (message.has_result()) {
    answer.result = std::move(*message.mutable_result());
  }
  return answer;
}

absl::StatusOr<AttendResult> DecodeSessionAnswer(const AttendRequest& step,
                                                 const std::vector<grpc::ByteBuffer>& messages) {
  ASSIGN_OR_RETURN(StreamAssembler assembler, StreamAssembler::Create(step));
  AttendResult result;
  for (const grpc::ByteBuffer& bytes : messages) {
    ASSIGN_OR_RETURN(const SessionMessage message, DecodeSessionMessage(bytes));
    for (const StreamMessage& part : message.parts) {
      RETURN_IF_ERROR(assembler.Add(part));
    }
  }
  RETURN_IF_ERROR(assembler.Finish(result));
  return result;
}

}  // namespace attention
