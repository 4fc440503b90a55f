// Sends a load and measures it: a closed loop, or an open one.
#pragma once

#include "absl/status/statusor.h"
#include "client/load/load_options.h"
#include "client/load/load_result.h"
#include "client/load/request_mix.h"

namespace attention {

/// Runs a closed loop: a fixed number of requests is always in flight, and each answer starts
/// the next. It therefore slows down with the server, and its latencies say nothing about users who
/// arrive independently of the server. Runs on the calling thread, which drives all calls through
/// one completion queue. Returns when every call has ended. It ends early after more than
/// kMaxFailuresInARow failures in a row over at least LoadOptions::patience: a server that is gone
/// refuses calls as fast as they are made. REQUIRES: concurrency, connections > 0; a positive
/// duration, or a number of requests. Errors of ConnectChannels.
absl::StatusOr<LoadResult> RunClosedLoop(const EncodedLoad& load, const LoadOptions& options,
                                         const LoadControl& control);

/// Runs an open loop: each request is sent when it is due, however many are in flight, by a
/// thread that does nothing else; the calling thread takes the answers. Latencies run from when a
/// request was due, so that a server, or a client, that falls behind cannot hide it. Returns when
/// every call has ended, which is at most the timeout after the window. REQUIRES:
/// `options.open_loop`; connections > 0; a positive duration or a number of requests. Errors of
/// ConnectChannels.
absl::StatusOr<LoadResult> RunOpenLoop(const EncodedLoad& load, const LoadOptions& options,
                                       const LoadControl& control);

/// Runs the loop that `options` asks for.
inline absl::StatusOr<LoadResult> RunLoad(const EncodedLoad& load, const LoadOptions& options,
                                          const LoadControl& control) {
  return options.open_loop.has_value() ? RunOpenLoop(load, options, control)
                                       : RunClosedLoop(load, options, control);
}

}  // namespace attention
