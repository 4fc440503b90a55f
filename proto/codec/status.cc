#include "proto/codec/status.h"

#include <string>

#include "core/runtime/presented_status.h"

namespace attention {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) {
    return grpc::Status::OK;
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()),
                      std::string(Presented(status).message()));
}

absl::Status ToAbslStatus(const grpc::Status& status) {
  if (status.ok()) {
    return absl::OkStatus();
  }
  const bool known = status.error_code() > grpc::StatusCode::OK &&
                     status.error_code() <= grpc::StatusCode::UNAUTHENTICATED;
  return absl::Status(
      known ? static_cast<absl::StatusCode>(status.error_code()) : absl::StatusCode::kUnknown,
      status.error_message());
}

}  // namespace attention
