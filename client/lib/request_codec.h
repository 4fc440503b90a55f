// Encodes requests.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/input_writer.h"

namespace attention {

inline constexpr char kAttendMethod[] = "/attention.v1.AttentionService/Attend";
inline constexpr char kAttendStreamMethod[] = "/attention.v1.AttentionService/AttendStream";
inline constexpr char kDecodeMethod[] = "/attention.v1.AttentionService/Decode";

/// Encodes an attention.v1.AttendRequest; `slice_of` returns the elements of its tensors.
/// INVALID_ARGUMENT if a tensor of the request is missing, the options have a bias or a mask, or
/// the request has 2^32 bytes or more; the server checks all else.
absl::StatusOr<grpc::ByteBuffer> EncodeRequest(const AttendRequest& request,
                                               const SliceOf& slice_of = CopiedSlice);

/// The number of an action in its session, and its sequence.
struct SessionAction {
  uint64_t id = 0;
  int64_t sequence = 0;
};

/// Encodes an attention.v1.DecodeRequest with a step; errors as above.
absl::StatusOr<grpc::ByteBuffer> EncodeStep(const SessionAction& action, const StepRequest& step,
                                            const SliceOf& slice_of = CopiedSlice);

}  // namespace attention
