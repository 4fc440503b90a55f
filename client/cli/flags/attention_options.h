// The options of a request, from flags.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/flags/attention_flags.h"
#include "client/lib/attention_client.h"
#include "client/load/workload.h"

namespace attention {

/// ALiBi's slopes of `num_heads` heads: 2^(-8 i / num_heads) for i = 1, 2, ...
std::vector<float> StandardAlibiSlopes(int64_t num_heads);

/// Puts the options into `workload`, with the tensors that they need; `seed` is that of random
/// tensors. Asks the server for the number of heads of a model if standard slopes are wanted.
/// REQUIRES: the input is there, and the flags passed the parser's checks.
absl::Status AddAttention(const AttentionFlags& flags, uint64_t seed, AttentionClient& client,
                          Workload& workload);

}  // namespace attention
