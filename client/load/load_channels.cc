#include "client/load/load_channels.h"

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"
#include "client/lib/channel.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr absl::Duration kMaxWait = absl::Seconds(5);
/// The interval at which a wait checks whether the load is stopped.
constexpr absl::Duration kStopCheckInterval = absl::Milliseconds(100);

}  // namespace

absl::StatusOr<LoadChannels> ConnectChannels(const LoadOptions& options,
                                             const LoadControl& control) {
  ASSIGN_OR_RETURN(LoadChannels channels, MakeChannels(options.connection, options.connections));
  for (const auto& channel : channels) {
    channel->GetState(/*try_to_connect=*/true);  // all connect side by side
  }
  const absl::Time end = absl::Now() + std::min(options.timeout, kMaxWait);
  const auto may_wait = [&] {
    return absl::Now() < end && !(control.stop != nullptr && control.stop->load());
  };
  for (const auto& channel : channels) {
    grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    while ((state == GRPC_CHANNEL_IDLE || state == GRPC_CHANNEL_CONNECTING) && may_wait()) {
      channel->WaitForStateChange(
          state, absl::ToChronoTime(std::min(end, absl::Now() + kStopCheckInterval)));
      state = channel->GetState(/*try_to_connect=*/true);
    }
  }
  return channels;
}

}  // namespace attention
