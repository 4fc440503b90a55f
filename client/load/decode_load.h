// A load of sessions that decode.
#pragma once

#include "absl/status/statusor.h"
#include "client/load/decode_lane.h"
#include "client/load/decode_plan.h"
#include "client/load/load_options.h"
#include "client/load/load_result.h"

namespace attention {

/// Encodes the actions of a session once. Errors of EncodeStep.
absl::StatusOr<EncodedSession> EncodeSession(const DecodePlan& plan);

/// `options.concurrency` sessions are always under way; each begins anew when it is through, until
/// the window ends; those that are under way then end with their next answer. Steps are what is
/// counted, as requests of a closed loop are. A session's deadline is `options.timeout` for each of
/// its actions. Runs on the calling thread.
/// REQUIRES: concurrency, connections > 0; a positive duration, or a number of requests. Errors
/// of MakeChannels.
absl::StatusOr<LoadResult> RunDecodeLoad(const EncodedSession& session, const LoadOptions& options,
                                         const LoadControl& control);

}  // namespace attention
