// Answers from the wire.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "proto/attention/v1/attention.pb.h"

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

/// One attention.v1.DecodeResponse.
struct SessionMessage {
  uint64_t id = 0;
  int64_t sequence = 0;
  std::optional<StreamMessage> part = {};
  std::optional<v1::DecodeResult> result = {};
};
absl::StatusOr<SessionMessage> DecodeSessionMessage(const grpc::ByteBuffer& bytes);

/// The timings and the batch.
void ReadSummary(const v1::Summary& summary, AttendResult& result);

/// All messages of the stream that answered `request`, put together.
absl::StatusOr<AttendResult> DecodeStreamMessages(const AttendRequest& request,
                                                  const std::vector<grpc::ByteBuffer>& messages);

/// The output in the messages that answered one step, an AttendRequest but for its session.
absl::StatusOr<AttendResult> DecodeSessionAnswer(const AttendRequest& step,
                                                 const std::vector<grpc::ByteBuffer>& messages);

}  // namespace attention
