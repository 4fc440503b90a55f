// One measured and checked run of load.
#pragma once

#include "absl/status/statusor.h"
#include "client/lib/attention_client.h"
#include "client/load/protocol.h"
#include "client/load/report.h"
#include "client/load/request_mix.h"

namespace attention {

/// Asks one request of the mix (the kind that the load draws first), checks that answer against the
/// reference (if options.num_samples > 0, and the model can be reproduced), runs the load, and
/// compares sampled answers bit for bit to those that the same requests get alone. Without samples
/// nothing is asked of the server but the protocol's own method. Errors are those of the first
/// request and of a malformed answer; what fails under load is part of the report.
absl::StatusOr<LoadReport> RunBench(AttentionClient& client, const RequestMix& mix,
                                    const Protocol& protocol, const LoadOptions& options);

}  // namespace attention
