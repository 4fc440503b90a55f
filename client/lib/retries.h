// Which calls gRPC makes again, and when.
#pragma once

#include <grpcpp/support/channel_arguments.h>

namespace attention {

struct CallPolicy {
  /// Leave out servers whose health is not SERVING, as those that drain; what has no health service
  /// counts as serving.
  bool watch_health = false;
  bool retries = false;
};

/// Spreads calls over the servers of a channel, one after the other. With retries, calls that
/// change nothing on the server are made again after UNAVAILABLE and RESOURCE_EXHAUSTED, on the
/// next server, while nothing of an answer has come and their deadline has not passed. README.md
/// says it in full.
void SetCallPolicy(const CallPolicy& policy, grpc::ChannelArguments& arguments);

}  // namespace attention
