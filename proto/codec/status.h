// Conversion between absl::Status (inside) and grpc::Status (on the wire), which share their codes.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace attention {

/// Converts a status, with its text as Presented makes it.
grpc::Status ToGrpcStatus(const absl::Status& status);

/// Converts a status. Codes that absl does not know become UNKNOWN.
absl::Status ToAbslStatus(const grpc::Status& status);

}  // namespace attention
