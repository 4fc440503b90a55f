// A load of sessions that decode.
#pragma once

#include "absl/status/statusor.h"
#include "client/load/decode_lane.h"
#include "client/load/load_options.h"
#include "client/load/load_result.h"

namespace attention {

/// Encodes the actions of a session once. Errors of EncodeStep.
absl::StatusOr<EncodedSession> EncodeSession(const DecodePlan& plan);

/// Keeps `options.concurrency` sessions running. A session that has made all its steps is followed
/// by a new one, until the window ends; then running sessions end with their next answer. Steps are
/// counted as a closed loop counts requests. A session's deadline is `options.timeout` for each of
/// its actions. Runs on the calling thread. REQUIRES: concurrency, connections > 0; a positive
/// duration, or a number of requests. Errors of ConnectChannels.
absl::StatusOr<LoadResult> RunDecodeLoad(const EncodedSession& session, const LoadOptions& options,
                                         const LoadControl& control);

}  // namespace attention
