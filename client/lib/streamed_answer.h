// The messages of a streamed answer, for the caller's sink.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/stream_assembler.h"

namespace attention {

/// Takes the messages of one stream, and makes its result. For one thread at a time.
class StreamedAnswer {
 public:
  /// Borrows both.
  StreamedAnswer(const AttendRequest& request, const StreamSink& sink)
      : request_(request), sink_(sink) {}

  /// INTERNAL for a malformed message, or one that does not continue the answer; CANCELLED when the
  /// sink stops the stream.
  absl::Status Take(const grpc::ByteBuffer& received);

  /// INTERNAL when messages are missing. REQUIRES: called once, after the last message.
  absl::StatusOr<AttendResult> Finish();

 private:
  /// Makes the assembler when the first message has arrived, so that the server reports an
  /// inconsistent request.
  absl::Status MakeAssembler();

  const AttendRequest& request_;
  const StreamSink& sink_;
  std::optional<StreamAssembler> assembler_;
  std::optional<AttendResult> result_;
};

/// Joins all messages of the stream that answered `request`.
absl::StatusOr<AttendResult> DecodeStreamMessages(const AttendRequest& request,
                                                  const std::vector<grpc::ByteBuffer>& messages);

}  // namespace attention
