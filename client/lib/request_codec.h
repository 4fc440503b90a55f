// Requests to the wire.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/decode_stream.h"

namespace attention {

inline constexpr char kAttendMethod[] = "/attention.v1.AttentionService/Attend";
inline constexpr char kAttendStreamMethod[] = "/attention.v1.AttentionService/AttendStream";
inline constexpr char kDecodeMethod[] = "/attention.v1.AttentionService/Decode";

/// The elements of a tensor, as the transport is to hold them.
using SliceOf = std::function<grpc::Slice(const Tensor&)>;

/// A copy, because the transport may hold it longer than the call lives.
grpc::Slice CopiedSlice(const Tensor& tensor);

/// An attention.v1.AttendRequest, whose tensors of elements `slice_of` gives. INVALID_ARGUMENT when
/// a tensor of the request is missing, or is where none belongs; everything else is the server's to
/// judge.
absl::StatusOr<grpc::ByteBuffer> EncodeRequest(const AttendRequest& request,
                                               const SliceOf& slice_of = CopiedSlice);

/// Which action of a session, and on which of its sequences.
struct SessionAction {
  uint64_t id = 0;
  int64_t sequence = 0;
};

/// An attention.v1.DecodeRequest with a step; errors as above.
absl::StatusOr<grpc::ByteBuffer> EncodeStep(const SessionAction& action, const StepRequest& step,
                                            const SliceOf& slice_of = CopiedSlice);

}  // namespace attention
