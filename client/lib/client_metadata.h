// The metadata of every call of a channel.
#pragma once

#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/connection_options.h"

namespace attention {

using ClientMetadata = std::vector<std::pair<std::string, std::string>>;

/// Returns the metadata of `options`, and its token as "authorization".
/// INVALID_ARGUMENT for metadata that HTTP/2 does not allow or gRPC reserves; FAILED_PRECONDITION
/// for an authorization that would leave this machine in plaintext.
absl::StatusOr<ClientMetadata> MetadataOf(const ConnectionOptions& options);

/// Returns interceptors that add `metadata` to all calls of a channel; none if it is empty.
std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> InterceptorsFor(
    const ClientMetadata& metadata);

}  // namespace attention
