// Calls to the wire.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"

namespace attention {

inline constexpr char kAttendMethod[] = "/attention.v1.AttentionService/Attend";
inline constexpr char kAttendStreamMethod[] = "/attention.v1.AttentionService/AttendStream";

/// An attention.v1.AttendRequest. Copies each tensor once, because the transport may hold it longer
/// than the call lives. INVALID_ARGUMENT when a tensor of the request is missing, or is where none
/// belongs; everything else is the server's to judge.
absl::StatusOr<grpc::ByteBuffer> EncodeRequest(const AttendRequest& request);

}  // namespace attention
