// Metadata that goes with every call of a channel, however the call is made.
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

/// Of `options`: their token as "authorization", and their metadata. INVALID_ARGUMENT for what
/// HTTP/2 does not carry or gRPC keeps for itself; FAILED_PRECONDITION for an authorization that
/// would leave this machine in plaintext.
absl::StatusOr<ClientMetadata> MetadataOf(const ConnectionOptions& options);

/// For the channel that is to send it; none for no metadata.
std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> InterceptorsFor(
    const ClientMetadata& metadata);

}  // namespace attention
