#include "client/load/load_channels.h"

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"
#include "client/lib/channel.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr absl::Duration kMaxWait = absl::Seconds(5);

}  // namespace

absl::StatusOr<LoadChannels> ConnectChannels(const LoadOptions& options) {
  ASSIGN_OR_RETURN(LoadChannels channels, MakeChannels(options.connection, options.connections));
  for (const auto& channel : channels) {
    channel->GetState(/*try_to_connect=*/true);  // all connect side by side
  }
  const auto end = absl::ToChronoTime(absl::Now() + std::min(options.timeout, kMaxWait));
  for (const auto& channel : channels) {
    grpc_connectivity_state state = GRPC_CHANNEL_IDLE;
    do {
      state = channel->GetState(/*try_to_connect=*/true);
    } while ((state == GRPC_CHANNEL_IDLE || state == GRPC_CHANNEL_CONNECTING) &&
             channel->WaitForStateChange(state, end));
  }
  return channels;
}

}  // namespace attention
