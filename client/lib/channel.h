// Connections of this client: addresses, TLS, and metadata that goes with every call.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/channel_arguments.h>

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

/// `count` such channels, each with a connection of its own.
absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> MakeChannels(
    const ConnectionOptions& options, int count);

struct CallPolicy {
  /// Leaves out servers whose health is not SERVING, such as those that drain. A server without a
  /// health service counts as serving.
  bool watch_health = false;
  bool retries = false;
};

/// Spreads calls over the servers of a channel, one after the other. With retries, calls that
/// change nothing on the server are made again after UNAVAILABLE and RESOURCE_EXHAUSTED, on the
/// next server, while nothing of an answer has come and their deadline has not passed. README.md
/// has the details.
void SetCallPolicy(const CallPolicy& policy, grpc::ChannelArguments& arguments);

}  // namespace attention
