// The flags of `bench`.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/flags/load_flags.h"
#include "client/cli/flags/request_flags.h"
#include "client/cli/flags/server_flags.h"
#include "client/load/bench.h"
#include "client/load/decode_plan.h"
#include "client/load/length_mix.h"
#include "client/load/protocol.h"
#include "client/load/request_mix.h"

namespace attention {

struct BenchFlags {
  ClientOptions server;
  RequestFlags request;
  std::optional<LengthMix> mix;
  std::string protocol = "native";
  bool stream = false;

  bool decode = false;
  DecodeOptions decode_options;

  LoadFlags load;

  int verify_sample = 4;
  std::map<std::string, std::string> tags;
  std::string json;
  std::string csv;
  std::string records;
  std::string html;
};

/// Adds the flags to `command`; texts that do not parse are refused by the parser.
void AddBenchFlags(CLI::App& command, BenchFlags& flags);

/// Returns INVALID_ARGUMENT for flags that are valid alone and cannot be combined.
absl::Status CheckBenchFlags(const BenchFlags& flags);

/// Returns the plan that the flags describe. Errors of PlanOf(LoadFlags). REQUIRES, as the
/// functions below: CheckBenchFlags is OK.
absl::StatusOr<BenchPlan> PlanOf(const BenchFlags& flags);

std::unique_ptr<const Protocol> ProtocolOf(const BenchFlags& flags);

/// Reads or generates the tensors. Asks the server for the width of a model only when no flag says
/// what to send, and for its vocabulary if tokens are to be random. Uses the lengths of the plan's
/// schedule if it has some.
absl::StatusOr<RequestMix> MakeRequestMix(const BenchFlags& flags, const BenchPlan& plan,
                                          AttentionClient& client);

/// Returns the sessions of --decode. Their input has the kind and the widths of the request without
/// --decode.
absl::StatusOr<DecodePlan> MakeDecodePlan(const BenchFlags& flags, const BenchPlan& plan,
                                          AttentionClient& client);

}  // namespace attention
