#include "client/load/protocol.h"

#include <utility>

#include "client/lib/answer_codec.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// The summary in the last message, whose tensors are not decoded.
absl::StatusOr<AttendResult> SummaryOf(const LoadAnswer& answer, bool is_streaming) {
  if (answer.empty()) {
    return absl::InternalError("malformed answer: an empty stream");
  }
  if (!is_streaming) {
    return DecodeAnswerSummary(answer.back());
  }
  ASSIGN_OR_RETURN(StreamMessage message, DecodeStreamMessage(answer.back()));
  if (auto* summary = std::get_if<AttendResult>(&message)) {
    return std::move(*summary);
  }
  return absl::InternalError("malformed answer: the stream ended without a summary");
}

}  // namespace

absl::StatusOr<std::optional<ServerAccount>> NativeProtocol::ReadAccount(
    const LoadAnswer& answer) const {
  ASSIGN_OR_RETURN(const AttendResult summary, SummaryOf(answer, is_streaming_));
  return ServerAccount{.receive_ns = absl::ToInt64Nanoseconds(summary.timings.receive),
                       .queue_ns = absl::ToInt64Nanoseconds(summary.timings.queue),
                       .compute_ns = absl::ToInt64Nanoseconds(summary.timings.compute),
                       .batch_requests = summary.batch.requests};
}

absl::StatusOr<AttendResult> NativeProtocol::Decode(const AttendRequest& request,
                                                    const LoadAnswer& answer) const {
  return is_streaming_ ? DecodeStreamMessages(request, answer) : DecodeAnswer(answer.back());
}

absl::StatusOr<std::optional<ServerAccount>> OpenInferenceProtocol::ReadAccount(
    const LoadAnswer& answer) const {
  RETURN_IF_ERROR(CheckInferAnswer(answer.back()));
  return std::nullopt;
}

absl::StatusOr<AttendResult> OpenInferenceProtocol::Decode(const AttendRequest&,
                                                           const LoadAnswer& answer) const {
  return DecodeInferAnswer(answer.back());
}

}  // namespace attention
