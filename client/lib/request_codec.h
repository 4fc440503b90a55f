// Calls and answers to and from the wire.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"

namespace attention {

inline constexpr char kAttendMethod[] = "/attention.v1.AttentionService/Attend";
inline constexpr char kAttendStreamMethod[] = "/attention.v1.AttentionService/AttendStream";

/// An attention.v1.AttendRequest. Copies each tensor once, because the transport may hold it longer
/// than the call lives. INVALID_ARGUMENT when a tensor of the request is missing, or is where none
/// belongs; everything else is the server's to judge.
absl::StatusOr<grpc::ByteBuffer> EncodeRequest(const AttendRequest& request);

/// An attention.v1.AttendResponse; client_total is left to the caller. Copies each tensor once.
/// INTERNAL for a malformed answer, as in all of this file.
absl::StatusOr<AttendResult> DecodeAnswer(const grpc::ByteBuffer& bytes);

/// The same without its tensors.
absl::StatusOr<AttendResult> DecodeAnswerSummary(const grpc::ByteBuffer& bytes);

/// One attention.v1.AttendStreamResponse. The last message of a stream is its summary: an
/// AttendResult without tensors.
using StreamMessage =
    std::variant<RowBlock, WeightsBlock, LogSumExpBlock, TopWeightsBlock, AttendResult>;
absl::StatusOr<StreamMessage> DecodeStreamMessage(const grpc::ByteBuffer& bytes);

/// All messages of the stream that answered `request`, put together.
absl::StatusOr<AttendResult> DecodeStream(const AttendRequest& request,
                                          const std::vector<grpc::ByteBuffer>& messages);

}  // namespace attention
