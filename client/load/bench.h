// One measured and checked run of load.
#pragma once

#include "absl/status/statusor.h"
#include "client/lib/attention_client.h"
#include "client/load/report.h"

namespace attention {

/// Asks once, checks that answer against the reference (if options.num_samples > 0, and the model
/// can be reproduced), runs the load, and compares sampled answers to the first bit for bit. Errors
/// are those of the first request and of a malformed answer; what fails under load is part of the
/// report.
absl::StatusOr<LoadReport> RunBench(AttentionClient& client, const AttendRequest& request,
                                    bool is_streaming, const LoadOptions& options);

}  // namespace attention
