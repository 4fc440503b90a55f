#include "client/lib/request_codec.h"

#include <algorithm>
#include <string>
#include <type_traits>
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
    RETURN_IF_ERROR(WriteOptions(request));
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

  absl::Status WriteOptions(const AttendRequest& request) {
    if (request.options.has_bias() || request.options.has_mask()) {
      return absl::InvalidArgumentError(
          "options: expected no bias and no mask, which are members of the request, found one");
    }
    v1::AttentionOptions& options = *request_.mutable_options();
    options = request.options;
    if (request.bias != nullptr) {
      Attach(request.bias, "options.bias", *options.mutable_bias());
    }
    if (request.mask != nullptr) {
      const MaskTensor& mask = *request.mask;
      WriteTensorHeader(v1::BOOL, mask.shape, *options.mutable_mask());
      encoder_.Attach(grpc::Slice(mask.values.data(), mask.values.size()), *options.mutable_mask());
    }
    return absl::OkStatus();
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

template <typename M>
absl::StatusOr<std::vector<int32_t>> KeysOf(const Received<M>& received,
                                            const v1::TopWeights& wire) {
  const absl::StatusOr<ReceivedElements> keys =
      ReadElements(wire.keys(), received.PayloadOf(wire.keys()), v1::INT32, "top_weights.keys");
  if (!keys.ok()) {
    return Malformed(keys.status());
  }
  if (!std::equal(keys->shape.begin(), keys->shape.end(), wire.weights().shape().begin(),
                  wire.weights().shape().end())) {
    return absl::InternalError("malformed answer: top_weights: keys and weights differ in shape");
  }
  std::vector<int32_t> values(keys->payload.size_bytes() / sizeof(int32_t));
  keys->payload.CopyTo(0, keys->payload.size_bytes(), values.data());
  return values;
}

void ReadSummary(const v1::Summary& summary, AttendResult& result) {
  result.timings.queue = absl::Nanoseconds(summary.queue_ns());
  result.timings.compute = absl::Nanoseconds(summary.compute_ns());
  result.timings.server_total = absl::Nanoseconds(summary.total_ns());
  result.batch = {summary.batch_id(), summary.batch_requests(), summary.batch_sequences(),
                  summary.batch_tokens()};
}

/// Where the rows of one head belong; the rows are still to come.
template <typename Wire>
RowBlock BlockOf(const Wire& wire) {
  return {wire.sequence(), wire.first_row(), Tensor()};
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
  for (const v1::Tensor& wire : received.message.log_sum_exp()) {
    ASSIGN_OR_RETURN(Tensor log_sum_exp, CopyOf(received, wire, "log_sum_exp"));
    result.log_sum_exp.push_back(std::move(log_sum_exp));
  }
  for (const v1::TopWeights& wire : received.message.top_weights()) {
    LargestWeights& top = result.top_weights.emplace_back();
    ASSIGN_OR_RETURN(top.weights, CopyOf(received, wire.weights(), "top_weights.weights"));
    ASSIGN_OR_RETURN(top.keys, KeysOf(received, wire));
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
      const v1::WeightsBlock& wire = message.weights();
      WeightsBlock result{wire.head(), BlockOf(wire)};
      ASSIGN_OR_RETURN(result.block.rows, CopyOf(received, wire.weights(), "weights.weights"));
      return StreamMessage(std::move(result));
    }
    case v1::AttendStreamResponse::kLogSumExp: {
      const v1::LogSumExpBlock& wire = message.log_sum_exp();
      LogSumExpBlock result{wire.head(), BlockOf(wire)};
      ASSIGN_OR_RETURN(result.block.rows, CopyOf(received, wire.log_sum_exp(), "log_sum_exp"));
      return StreamMessage(std::move(result));
    }
    case v1::AttendStreamResponse::kTopWeights: {
      const v1::TopWeightsBlock& wire = message.top_weights();
      TopWeightsBlock result{wire.head(), BlockOf(wire), {}};
      ASSIGN_OR_RETURN(result.block.rows,
                       CopyOf(received, wire.top_weights().weights(), "top_weights.weights"));
      ASSIGN_OR_RETURN(result.keys, KeysOf(received, wire.top_weights()));
      return StreamMessage(std::move(result));
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
    RETURN_IF_ERROR(std::visit(
        [&](auto& part) {
          if constexpr (std::is_same_v<decltype(part), AttendResult&>) {
            result = std::move(part);
            return absl::OkStatus();
          } else {
            return assembler.Add(part);
          }
        },
        message));
  }
  RETURN_IF_ERROR(assembler.Finish(result));
  return result;
}

}  // namespace attention
