// Connections of this client: addresses, TLS, and metadata that goes with every call.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/connection_options.h"

namespace attention {

/// A channel without message limits of its own, tuned for tensors of megabytes. Connects with the
/// first call. Files are read now. Channels of the same plaintext server share a connection. Errors
/// name the option: those of TargetOf; INVALID_ARGUMENT for half a certificate, a file that does
/// not hold what it should, metadata that HTTP/2 does not carry; FAILED_PRECONDITION for a token
/// that would be sent in plaintext to another machine.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const ConnectionOptions& options);

/// `count` such channels for a load, each with a connection of its own. With retries, gRPC itself
/// repeats their calls, as README.md says.
absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> MakeChannels(
    const ConnectionOptions& options, int count);

}  // namespace attention
