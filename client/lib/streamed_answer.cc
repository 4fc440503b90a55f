#include "client/lib/streamed_answer.h"

#include <utility>
#include <variant>

#include "client/lib/answer_codec.h"
#include "client/lib/malformed_answer.h"
#include "core/runtime/status_macros.h"

namespace attention {

absl::Status StreamedAnswer::MakeAssembler() {
  if (!assembler_.has_value()) {
    ASSIGN_OR_RETURN(assembler_, StreamAssembler::Create(request_, /*has_output=*/true,
                                                         /*has_options=*/true, sink_.assemble));
  }
  return absl::OkStatus();
}

absl::Status StreamedAnswer::Take(const grpc::ByteBuffer& received) {
  if (result_.has_value()) {
    return MalformedAnswer("expected the summary last, found a message after it");
  }
  ASSIGN_OR_RETURN(StreamMessage message, DecodeStreamMessage(received));
  if (auto* summary = std::get_if<v1::Summary>(&message)) {
    result_.emplace().summary = std::move(*summary);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(MakeAssembler());
  RETURN_IF_ERROR(assembler_->Add(message));
  const auto* rows = std::get_if<RowBlock>(&message);
  return rows == nullptr || sink_.on_rows == nullptr || sink_.on_rows(*rows)
             ? absl::OkStatus()
             : absl::CancelledError("stopped by the caller");
}

absl::StatusOr<AttendResult> StreamedAnswer::Finish() {
  if (!result_.has_value()) {
    return NotSent("summary");
  }
  RETURN_IF_ERROR(MakeAssembler());  // for an answer without rows
  RETURN_IF_ERROR(assembler_->Finish(*result_));
  return *std::move(result_);
}

absl::StatusOr<AttendResult> DecodeStreamMessages(const AttendRequest& request,
                                                  const std::vector<grpc::ByteBuffer>& messages) {
  const StreamSink sink{.assemble = true};
  StreamedAnswer answer(request, sink);
  for (const grpc::ByteBuffer& message : messages) {
    RETURN_IF_ERROR(answer.Take(message));
  }
  return answer.Finish();
}

}  // namespace attention
