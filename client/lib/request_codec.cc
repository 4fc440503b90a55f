#include "client/lib/request_codec.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/lib/stream_assembler.h"
#include "core/runtime/status_macros.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/encode.h"
#include "proto/codec/envelope.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

/// Builds a request; remembers the first tensor that was missing.
class RequestBuilder {
 public:
  void Write(const HiddenStatesInput& input) {
    v1::HiddenStates& wire = *request_.mutable_hidden_states();
    Attach(input.tensor, "hidden_states.tensor", *wire.mutable_tensor());
    wire.mutable_lengths()->Add(input.lengths.begin(), input.lengths.end());
    if (input.memory != nullptr) {
      Attach(input.memory, "hidden_states.memory", *wire.mutable_memory());
    }
    wire.mutable_memory_lengths()->Add(input.memory_lengths.begin(), input.memory_lengths.end());
  }

  void Write(const TokenIdsInput& input) {
    v1::TokenIds& wire = *request_.mutable_token_ids();
    wire.mutable_ids()->Add(input.ids.begin(), input.ids.end());
    wire.mutable_lengths()->Add(input.lengths.begin(), input.lengths.end());
  }

  void Write(const QueryKeyValueInput& input) {
    v1::QueryKeyValue& wire = *request_.mutable_query_key_value();
    Attach(input.query, "query_key_value.query", *wire.mutable_query());
    Attach(input.key, "query_key_value.key", *wire.mutable_key());
    Attach(input.value, "query_key_value.value", *wire.mutable_value());
    wire.mutable_lengths()->Add(input.lengths.begin(), input.lengths.end());
    wire.mutable_kv_lengths()->Add(input.kv_lengths.begin(), input.kv_lengths.end());
    wire.mutable_query_offsets()->Add(input.query_offsets.begin(), input.query_offsets.end());
  }

  absl::StatusOr<grpc::ByteBuffer> Encode(const AttendRequest& request) {
    request_.set_model(request.model);
    std::visit([this](const auto& input) { Write(input); }, request.input);
    RETURN_IF_ERROR(missing_tensor_);
    v1::AttentionOptions& options = *request_.mutable_options();
    if (request.causal.has_value()) {
      options.set_causal(*request.causal);
    }
    if (request.scale.has_value()) {
      options.set_scale(*request.scale);
    }
    options.set_return_weights(request.return_weights);
    return encoder_.Encode(request_);
  }

 private:
  void Attach(const Tensor* tensor, const char* name, v1::Tensor& wire) {
    if (tensor == nullptr) {
      missing_tensor_.Update(
          absl::InvalidArgumentError(absl::StrCat(name, ": expected a tensor, found none")));
      return;
    }
    WriteTensorHeader(tensor->dtype(), tensor->shape(), wire);
    encoder_.Attach(grpc::Slice(tensor->data(), tensor->size_bytes()), wire);
  }

  v1::AttendRequest request_;
  Encoder encoder_;
  absl::Status missing_tensor_;
};

absl::Status Malformed(const absl::Status& status) {
  return absl::InternalError(absl::StrCat("malformed answer: ", status.message()));
}

template <typename M>
absl::StatusOr<Received<M>> DecodeMessage(const grpc::ByteBuffer& bytes) {
  absl::StatusOr<Received<M>> received = Decode<M>(bytes);
  return received.ok() ? std::move(received) : Malformed(received.status());
}

template <typename M>
absl::StatusOr<Tensor> CopyOf(const Received<M>& received, const v1::Tensor& wire,
                              const char* name) {
  const absl::StatusOr<ReceivedTensor> tensor = ReadTensor(wire, received.PayloadOf(wire), name);
  if (!tensor.ok()) {
    return Malformed(tensor.status());
  }
  return CopyTensor(*tensor);
}

void ReadSummary(const v1::Summary& summary, AttendResult& result) {
  result.timings.queue = absl::Nanoseconds(summary.queue_ns());
  result.timings.compute = absl::Nanoseconds(summary.compute_ns());
  result.timings.server_total = absl::Nanoseconds(summary.total_ns());
  result.batch = {summary.batch_id(), summary.batch_requests(), summary.batch_sequences(),
                  summary.batch_tokens()};
}

}  // namespace

absl::StatusOr<grpc::ByteBuffer> EncodeRequest(const AttendRequest& request) {
  return RequestBuilder().Encode(request);
}

absl::StatusOr<AttendResult> DecodeAnswer(const grpc::ByteBuffer& bytes) {
  ASSIGN_OR_RETURN(const Received<v1::AttendResponse> received,
                   DecodeMessage<v1::AttendResponse>(bytes));
  AttendResult result;
  ASSIGN_OR_RETURN(result.output, CopyOf(received, received.message.output(), "output"));
  for (const v1::Tensor& wire : received.message.weights()) {
    ASSIGN_OR_RETURN(Tensor weights, CopyOf(received, wire, "weights"));
    result.weights.push_back(std::move(weights));
  }
  ReadSummary(received.message.summary(), result);
  return result;
}

absl::StatusOr<AttendResult> DecodeAnswerSummary(const grpc::ByteBuffer& bytes) {
  v1::AttendResponse message;
  const absl::Status status = DecodeEnvelope(bytes, PayloadFieldsOf<v1::AttendResponse>(), message);
  if (!status.ok()) {
    return Malformed(status);
  }
  AttendResult result;
  ReadSummary(message.summary(), result);
  return result;
}

absl::StatusOr<StreamMessage> DecodeStreamMessage(const grpc::ByteBuffer& bytes) {
  ASSIGN_OR_RETURN(const Received<v1::AttendStreamResponse> received,
                   DecodeMessage<v1::AttendStreamResponse>(bytes));
  const v1::AttendStreamResponse& message = received.message;
  switch (message.part_case()) {
    case v1::AttendStreamResponse::kRows: {
      RowBlock block{message.rows().sequence(), message.rows().first_row(), Tensor()};
      ASSIGN_OR_RETURN(block.rows, CopyOf(received, message.rows().output(), "rows.output"));
      return StreamMessage(std::move(block));
    }
    case v1::AttendStreamResponse::kWeights: {
      WeightsBlock weights{message.weights().head(),
                           {message.weights().sequence(), message.weights().first_row(), Tensor()}};
      ASSIGN_OR_RETURN(weights.block.rows,
                       CopyOf(received, message.weights().weights(), "weights.weights"));
      return StreamMessage(std::move(weights));
    }
    case v1::AttendStreamResponse::kSummary: {
      AttendResult result;
      ReadSummary(message.summary(), result);
      return StreamMessage(std::move(result));
    }
    case v1::AttendStreamResponse::PART_NOT_SET:
      break;
  }
  return absl::InternalError("malformed answer: a message of the stream has no part");
}

absl::StatusOr<AttendResult> DecodeStream(const AttendRequest& request,
                                          const std::vector<grpc::ByteBuffer>& messages) {
  ASSIGN_OR_RETURN(StreamAssembler assembler, StreamAssembler::Create(request));
  AttendResult result;
  for (const grpc::ByteBuffer& bytes : messages) {
    ASSIGN_OR_RETURN(StreamMessage message, DecodeStreamMessage(bytes));
    if (auto* summary = std::get_if<AttendResult>(&message)) {
      result = std::move(*summary);
    } else if (const auto* rows = std::get_if<RowBlock>(&message)) {
      RETURN_IF_ERROR(assembler.Add(*rows));
    } else {
      RETURN_IF_ERROR(assembler.Add(std::get<WeightsBlock>(message)));
    }
  }
  RETURN_IF_ERROR(assembler.Finish(result));
  return result;
}

}  // namespace attention
