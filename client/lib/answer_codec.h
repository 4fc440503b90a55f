// Answers from the wire.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"

namespace attention {

/// An attention.v1.AttendResponse; client_total is left to the caller. Copies each tensor once.
/// INTERNAL for a malformed answer, as in all of this file.
absl::StatusOr<AttendResult> DecodeAnswer(const grpc::ByteBuffer& bytes);

/// The same without its tensors.
absl::StatusOr<AttendResult> DecodeAnswerSummary(const grpc::ByteBuffer& bytes);

/// One attention.v1.AttendStreamResponse. The last message of a stream is its summary: an
/// AttendResult without tensors.
using StreamMessage = std::variant<RowBlock, WeightsBlock, LogSumExpBlock, TopWeightsBlock,
                                   TokensBlock, LayerWeightsBlock, AttendResult>;
absl::StatusOr<StreamMessage> DecodeStreamMessage(const grpc::ByteBuffer& bytes);

/// All messages of the stream that answered `request`, put together.
absl::StatusOr<AttendResult> DecodeStream(const AttendRequest& request,
                                          const std::vector<grpc::ByteBuffer>& messages);

}  // namespace attention
