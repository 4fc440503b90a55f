// Requests and answers of the Open Inference Protocol v2 (package inference).
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/input_writer.h"

namespace attention {

inline constexpr char kModelInferMethod[] = "/inference.GRPCInferenceService/ModelInfer";

/// A ModelInferRequest: inputs `hidden_states` [B, S, E] (with `lengths`, `memory`,
/// `memory_lengths`), `input_ids` INT32 [B, S], or `query`, `key` and `value` [B, S, H, D] (with
/// `kv_lengths`, `bias`) for the model "attention"; all raw. Of the options only those of
/// OptionParameters, as parameters, beside `layer`. INVALID_ARGUMENT names whatever else the
/// request has, because the protocol cannot express it, and tensors that are missing or of another
/// rank.
absl::StatusOr<grpc::ByteBuffer> EncodeInferRequest(const AttendRequest& request,
                                                    const SliceOf& slice_of = CopiedSlice);

/// The tensor `output` of a ModelInferResponse, or its only one. INTERNAL for a malformed answer,
/// as below.
absl::StatusOr<AttendResult> DecodeInferAnswer(const grpc::ByteBuffer& bytes);

/// OK if DecodeInferAnswer accepts `bytes`; does not copy the tensor.
absl::Status CheckInferAnswer(const grpc::ByteBuffer& bytes);

}  // namespace attention
