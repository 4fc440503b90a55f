// Encodes requests and decodes answers of the Open Inference Protocol v2 (package inference).
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/input_writer.h"

namespace attention {

inline constexpr char kModelInferMethod[] = "/inference.GRPCInferenceService/ModelInfer";

/// Encodes a ModelInferRequest with inputs `hidden_states` [B, S, E] (with `lengths`, `memory`,
/// `memory_lengths`), `input_ids` INT32 [B, S], or `query`, `key` and `value` [B, S, H, D] (with
/// `kv_lengths`, `bias`) for the model "attention"; all raw. `layer`
/// and the options of OptionParameters become parameters. INVALID_ARGUMENT names all else that the
/// request has, because the protocol cannot express it, and tensors that are missing or have
/// another rank.
absl::StatusOr<grpc::ByteBuffer> EncodeInferRequest(const AttendRequest& request,
                                                    const SliceOf& slice_of = CopiedSlice);

/// Decodes the tensor `output` of a ModelInferResponse, or its only one. A malformed answer is
/// INTERNAL, also below.
absl::StatusOr<AttendResult> DecodeInferAnswer(const grpc::ByteBuffer& bytes);

/// Returns OK if DecodeInferAnswer accepts `bytes`, without copying the tensor.
absl::Status CheckInferAnswer(const grpc::ByteBuffer& bytes);

}  // namespace attention
