// The reply to a ModelInfer request.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/statusor.h"
#include "server/services/open_inference/infer_plan.h"
#include "server/services/reply/attend_reply.h"

namespace attention {

/// Returns whether making the reply takes more time than encoding its messages: weights are padded,
/// or outputs are copied to shared memory.
bool NeedsCopies(const InferAnswer& answer);

/// Writes the outputs in shared memory, and makes the message, which refers to the memory of
/// `reply` for the others. Errors of SharedRegion::Write.
absl::StatusOr<grpc::ByteBuffer> EncodeInfer(const InferAnswer& answer, const AttendReply& reply);

/// Makes the same as a message of a stream, which tells whether it is the request's last.
absl::StatusOr<grpc::ByteBuffer> EncodeStreamInfer(const InferAnswer& answer,
                                                   const AttendReply& reply, bool is_final);

/// Make the other messages of a stream: an error, and the end of a request whose reply was not its
/// last message.
grpc::ByteBuffer EncodeStreamError(const std::string& id, const absl::Status& status);
grpc::ByteBuffer EncodeStreamEnd(const InferAnswer& answer);

}  // namespace attention
