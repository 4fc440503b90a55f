// The border between absl::Status (inside) and grpc::Status (the wire). The two share their codes.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace attention {

/// The text is Presented.
grpc::Status ToGrpcStatus(const absl::Status& status);

/// Codes that absl does not know become UNKNOWN.
absl::Status ToAbslStatus(const grpc::Status& status);

}  // namespace attention
