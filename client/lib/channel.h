// Makes channels: addresses, TLS, and the metadata of every call.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/connection_options.h"

namespace attention {

/// Makes a channel without limits on messages, tuned for tensors of megabytes, which connects with
/// its first call. It reads the files of `options` now. Channels of the same plaintext server share
/// a connection. Errors name the option: those of TargetOf; INVALID_ARGUMENT for a certificate
/// without key or a key without certificate, a file without the expected PEM, metadata that HTTP/2
/// does not allow; FAILED_PRECONDITION for a token that would be sent in plaintext to another
/// machine.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const ConnectionOptions& options);

/// Adds to an UNAVAILABLE error the address that was tried, and what to change when gRPC's words
/// tell that the port speaks another protocol. Returns other errors as they are.
absl::Status WithServer(const absl::Status& status, const ConnectionOptions& options);

using ClientMetadata = std::vector<std::pair<std::string, std::string>>;

/// Returns the metadata of every call of a channel: that of `options`, and its token as
/// "authorization". INVALID_ARGUMENT for metadata that HTTP/2 does not allow or gRPC reserves;
/// FAILED_PRECONDITION for an authorization that would leave this machine in plaintext.
absl::StatusOr<ClientMetadata> MetadataOf(const ConnectionOptions& options);

/// Makes `count` such channels for a load, each with a connection of its own. With retries, gRPC
/// itself repeats their calls, as README.md says.
absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> MakeChannels(
    const ConnectionOptions& options, int count);

}  // namespace attention
