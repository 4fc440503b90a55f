// The channels of a load.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/load_options.h"

namespace attention {

/// At least one channel; each has its own connection.
using LoadChannels = std::vector<std::shared_ptr<grpc::Channel>>;

/// Makes the channels of the options, and waits until each has a connection or could not get one,
/// so that connecting is no part of a latency. It waits at most 5 s, and at most
/// LoadOptions::timeout, and not when the load is stopped. Errors of MakeChannels; a server that
/// cannot be reached is none, since the calls will say so.
absl::StatusOr<LoadChannels> ConnectChannels(const LoadOptions& options,
                                             const LoadControl& control = {});

}  // namespace attention
