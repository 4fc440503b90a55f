#include "client/lib/request_codec.h"

#include "absl/status/status.h"
#include "core/runtime/status_macros.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {
namespace {

void WriteRun(const AttendRequest& request, v1::AttendRequest& wire) {
  if (request.layer.has_value()) {
    wire.set_layer(*request.layer);
  }
  if (request.model_version.has_value()) {
    wire.set_model_version(*request.model_version);
  }
  wire.set_model_output(request.model_output);
  if (!request.weights_choice.layers().empty() || !request.weights_choice.heads().empty()) {
    *wire.mutable_weights_choice() = request.weights_choice;
  }
}

absl::Status WriteOptions(const AttendRequest& request, InputWriter& writer,
                          v1::AttentionOptions& options) {
  if (request.options.has_bias() || request.options.has_mask()) {
    return absl::InvalidArgumentError(
        "options: expected no bias and no mask, which are members of the request, found one");
  }
  options = request.options;
  if (request.bias != nullptr) {
    writer.Attach(request.bias, "options.bias", *options.mutable_bias());
  }
  if (request.mask != nullptr) {
    writer.Attach(*request.mask, *options.mutable_mask());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<grpc::ByteBuffer> EncodeRequest(const AttendRequest& request,
                                               const SliceOf& slice_of) {
  v1::AttendRequest wire;
  wire.set_model(request.model);
  InputWriter writer(slice_of);
  writer.Write(request.input, wire);
  WriteRun(request, wire);
  RETURN_IF_ERROR(WriteOptions(request, writer, *wire.mutable_options()));
  return writer.Encode(wire);
}

absl::StatusOr<grpc::ByteBuffer> EncodeStep(const SessionAction& action, const StepRequest& step,
                                            const SliceOf& slice_of) {
  v1::DecodeRequest wire;
  wire.set_id(action.id);
  wire.set_sequence(action.sequence);
  v1::DecodeStep& wire_step = *wire.mutable_step();
  InputWriter writer(slice_of);
  writer.Write(step.input, wire_step);
  wire_step.set_model_output(step.model_output);
  wire_step.set_top_logits(step.top_logits);
  wire_step.set_no_output(step.no_output);
  wire_step.set_join_parts(true);
  return writer.Encode(wire);
}

}  // namespace attention
