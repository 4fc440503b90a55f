// The flags that say how to attend.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/lib/attention_client.h"
#include "client/load/workload.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

struct AttentionFlags {
  /// All options that the flags give alone. AddAttention adds what needs a server or a file.
  v1::AttentionOptions options;
  bool has_standard_alibi = false;
  std::string query_norm, key_norm;  // "ones", or a tensor
  std::optional<double> norm_epsilon;
  std::string bias, mask;  // tensors

  /// Returns whether any of the flags was given.
  bool is_given() const;
};

/// Adds the flags to `command`; texts that do not parse are refused by the parser.
void AddAttentionFlags(CLI::App& command, AttentionFlags& flags);

/// Puts the options into `workload`, with the tensors that they need; `seed` is that of random
/// tensors. Asks the server for the number of heads of a model if standard slopes are wanted.
/// REQUIRES: the input is there, and the flags passed the parser's checks.
absl::Status AddAttention(const AttentionFlags& flags, uint64_t seed, AttentionClient& client,
                          Workload& workload);

}  // namespace attention
