// A load of sessions that decode.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/load/decode_lane.h"
#include "client/load/decode_plan.h"
#include "client/load/histogram.h"
#include "client/load/load_options.h"
#include "client/load/load_result.h"

namespace attention {

/// The answer to the prompt (index 0) or to one of the steps (from 1 on) of some session.
struct DecodeSample {
  int64_t index = 0;
  std::vector<grpc::ByteBuffer> messages;
};

struct DecodeLoadResult {
  absl::Duration window;

  // Answers that came within the window, and how long after they were asked for.
  int64_t prefills = 0;
  int64_t steps = 0;
  Histogram step_ns;
  /// From the beginning of a session until its prompt was answered.
  Histogram first_answer_ns;
  /// The server's own account of the steps, summed.
  ServerAccount account;

  /// Sessions that failed, in the whole run.
  std::map<std::string, FailureTally> failures;
  bool gave_up = false;
  double client_cpu_share = 0.0;
  std::vector<DecodeSample> samples;
};

/// Encodes the actions of a session once. Errors of EncodeStep.
absl::StatusOr<EncodedSession> EncodeSession(const DecodePlan& plan);

/// `options.concurrency` sessions are always under way; each begins anew when it is through, until
/// the window ends; those that are under way then end with their next answer. A session's deadline
/// is `options.timeout` for each of its actions. Runs on the calling thread.
/// REQUIRES: concurrency, connections > 0; a positive duration. Errors of MakeChannels.
absl::StatusOr<DecodeLoadResult> RunDecodeLoad(const EncodedSession& session,
                                               const LoadOptions& options);

}  // namespace attention
