#include "server/services/open_inference/infer_reply.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/runtime/prefixed.h"
#include "core/runtime/presented_status.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/arena_message.h"
#include "proto/codec/encode.h"
#include "server/services/open_inference/native_errors.h"

namespace attention {
namespace {

constexpr char kFinalResponse[] = "triton_final_response";
constexpr char kCachedTokens[] = "cached_tokens";

// Copies one sequence's table into the padded tensor, whose last columns are the layer's extra
// keys.
void CopyWeights(const float* table, const WeightsRange& range, int64_t extra_keys,
                 const Shape& shape, float* padded) {
  const int64_t keys = shape[3];
  for (int64_t head = 0; head < shape[1]; ++head) {
    for (int64_t row = 0; row < range.rows; ++row) {
      float* const target = padded + (head * shape[2] + range.first_row + row) * keys;
      std::copy_n(table, range.keys, target + range.first_key);
      table += range.keys;
      std::copy_n(table, extra_keys, target + keys - extra_keys);
      table += extra_keys;
    }
  }
}

grpc::Slice PaddedWeights(const InferAnswer& answer, const InferOutput& output,
                          const AttendReply& reply) {
  const auto size_bytes = static_cast<size_t>(output.size_bytes);
  const std::shared_ptr<AlignedBuffer> buffer(
      new AlignedBuffer(size_bytes), [held = reply.held()](AlignedBuffer* copy) { delete copy; });
  if (size_bytes == 0) {
    return grpc::Slice();
  }
  auto* const padded = reinterpret_cast<float*>(buffer->data());
  std::memset(padded, 0, size_bytes);
  const int64_t sequence_elements = output.shape[1] * output.shape[2] * output.shape[3];
  for (int64_t i = 0; i < std::ssize(answer.weights_ranges); ++i) {
    CopyWeights(reply.Weights(i), answer.weights_ranges[i], answer.extra_keys, output.shape,
                padded + i * sequence_elements);
  }
  return SharedSlice(buffer, padded, size_bytes);
}

absl::Status WriteToRegion(const InferOutput& output, const grpc::Slice& slice,
                           inference::ModelInferResponse::InferOutputTensor& wire) {
  const RegionRange& range = *output.range;
  RETURN_IF_ERROR(Prefixed(OutputName(wire.name()),
                           output.region->Write(range.offset, output.size_bytes, slice.begin())));
  auto& parameters = *wire.mutable_parameters();
  parameters["shared_memory_region"].set_string_param(range.region);
  parameters["shared_memory_byte_size"].set_int64_param(output.size_bytes);
  if (range.offset != 0) {
    parameters["shared_memory_offset"].set_int64_param(range.offset);
  }
  return absl::OkStatus();
}

void WriteHead(const InferAnswer& answer, inference::ModelInferResponse& response) {
  response.set_model_name(answer.model_name);
  response.set_model_version(answer.model_version);
  response.set_id(answer.id);
}

absl::Status WriteResponse(const InferAnswer& answer, const AttendReply& reply, Encoder& encoder,
                           inference::ModelInferResponse& response) {
  WriteHead(answer, response);
  if (answer.cached_tokens > 0) {
    (*response.mutable_parameters())[kCachedTokens].set_int64_param(answer.cached_tokens);
  }
  for (const InferOutput& output : answer.outputs) {
    auto& wire = *response.add_outputs();
    wire.set_name(output.is_weights ? "weights" : "output");
    wire.set_datatype(output.datatype);
    wire.mutable_shape()->Assign(output.shape.begin(), output.shape.end());
    std::string& payload = *response.add_raw_output_contents();
    grpc::Slice slice =
        output.is_weights ? PaddedWeights(answer, output, reply) : reply.OutputSlice();
    if (output.region != nullptr) {
      RETURN_IF_ERROR(WriteToRegion(output, slice, wire));
    } else {
      encoder.Attach(std::move(slice), payload);
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool NeedsCopies(const InferAnswer& answer) {
  return std::any_of(answer.outputs.begin(), answer.outputs.end(), [](const InferOutput& output) {
    return output.is_weights || output.region != nullptr;
  });
}

absl::StatusOr<grpc::ByteBuffer> EncodeInfer(const InferAnswer& answer, const AttendReply& reply) {
  Encoder encoder;
  ArenaMessage<inference::ModelInferResponse> response;
  RETURN_IF_ERROR(WriteResponse(answer, reply, encoder, *response));
  return encoder.Encode(*response);
}

absl::StatusOr<grpc::ByteBuffer> EncodeStreamInfer(const InferAnswer& answer,
                                                   const AttendReply& reply, bool is_final) {
  Encoder encoder;
  ArenaMessage<inference::ModelStreamInferResponse> message;
  inference::ModelInferResponse& response = *message->mutable_infer_response();
  (*response.mutable_parameters())[kFinalResponse].set_bool_param(is_final);
  RETURN_IF_ERROR(WriteResponse(answer, reply, encoder, response));
  return encoder.Encode(*message);
}

grpc::ByteBuffer EncodeStreamError(const std::string& id, const absl::Status& status) {
  inference::ModelStreamInferResponse message;
  message.set_error_message(std::string(Presented(status).message()));
  message.mutable_infer_response()->set_id(id);
  return Encoder().Encode(message);
}

grpc::ByteBuffer EncodeStreamEnd(const InferAnswer& answer) {
  ArenaMessage<inference::ModelStreamInferResponse> message;
  inference::ModelInferResponse& response = *message->mutable_infer_response();
  WriteHead(answer, response);
  (*response.mutable_parameters())[kFinalResponse].set_bool_param(true);
  return Encoder().Encode(*message);
}

}  // namespace attention
