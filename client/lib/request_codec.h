// Calls to the wire.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <functional>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"

namespace attention {

inline constexpr char kAttendMethod[] = "/attention.v1.AttentionService/Attend";
inline constexpr char kAttendStreamMethod[] = "/attention.v1.AttentionService/AttendStream";

/// The elements of a tensor, as the transport is to hold them.
using SliceOf = std::function<grpc::Slice(const Tensor&)>;

/// A copy, because the transport may hold it longer than the call lives.
grpc::Slice CopiedSlice(const Tensor& tensor);

/// An attention.v1.AttendRequest, whose tensors of elements `slice_of` gives. INVALID_ARGUMENT when
/// a tensor of the request is missing, or is where none belongs; everything else is the server's to
/// judge.
absl::StatusOr<grpc::ByteBuffer> EncodeRequest(const AttendRequest& request,
                                               const SliceOf& slice_of = CopiedSlice);

}  // namespace attention
