#include "client/load/protocol.h"

#include "client/lib/answer_codec.h"
#include "client/lib/answer_shape.h"
#include "client/lib/malformed_answer.h"
#include "client/lib/streamed_answer.h"
#include "core/runtime/status_macros.h"

namespace attention {
absl::StatusOr<v1::Summary> NativeProtocol::ReadSummary(const LoadAnswer& answer) const {
  if (answer.empty()) {
    return MalformedAnswer("an empty stream");
  }
  return is_streaming_ ? DecodeSummary<v1::AttendStreamResponse>(answer.back())
                       : DecodeSummary<v1::AttendResponse>(answer.back());
}

absl::StatusOr<AttendResult> NativeProtocol::Decode(const AttendRequest& request,
                                                    const LoadAnswer& answer) const {
  if (is_streaming_) {
    return DecodeStreamMessages(request, answer);
  }
  ASSIGN_OR_RETURN(AttendResult result, DecodeAnswer(answer.back()));
  RETURN_IF_ERROR(CheckAnswer(request, result));
  return result;
}

absl::StatusOr<v1::Summary> OpenInferenceProtocol::ReadSummary(const LoadAnswer& answer) const {
  RETURN_IF_ERROR(CheckInferAnswer(answer.back()));
  return v1::Summary();
}

absl::StatusOr<AttendResult> OpenInferenceProtocol::Decode(const AttendRequest&,
                                                           const LoadAnswer& answer) const {
  return DecodeInferAnswer(answer.back());
}

}  // namespace attention
