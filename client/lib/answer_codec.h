// Decodes answers.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// Decodes an attention.v1.AttendResponse; the caller sets client_total. Copies each tensor once. A
/// malformed answer is INTERNAL, here and below.
absl::StatusOr<AttendResult> DecodeAnswer(const grpc::ByteBuffer& bytes);

/// Decodes the summary of an answer, without its tensors. `Answer` is v1::AttendResponse, or
/// v1::AttendStreamResponse for the last message of a stream.
template <typename Answer>
absl::StatusOr<v1::Summary> DecodeSummary(const grpc::ByteBuffer& bytes);

/// Decodes an attention.v1.AttendStreamResponse.
absl::StatusOr<StreamMessage> DecodeStreamMessage(const grpc::ByteBuffer& bytes);

/// A decoded attention.v1.DecodeResponse.
struct SessionMessage {
  uint64_t id = 0;
  int64_t sequence = 0;
  /// Parts of the answer, in order.
  std::vector<StreamMessage> parts = {};
  std::optional<v1::DecodeResult> result = {};
};
absl::StatusOr<SessionMessage> DecodeSessionMessage(const grpc::ByteBuffer& bytes);

/// Joins the output from the messages that answered a step; `step` is an AttendRequest with that
/// step's input.
absl::StatusOr<AttendResult> DecodeSessionAnswer(const AttendRequest& step,
                                                 const std::vector<grpc::ByteBuffer>& messages);

}  // namespace attention
