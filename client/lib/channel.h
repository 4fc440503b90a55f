// How this client's connections are set up.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace attention {

/// A channel without message limits of its own, tuned for tensors of megabytes. Connects with the
/// first call. Channels share a connection to the same server unless `own_connection`.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& server, bool own_connection);

}  // namespace attention
