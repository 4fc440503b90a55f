// The flags of `run`, `bench` and `plot` that describe a request.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/files/shape_text.h"
#include "client/cli/flags/attention_flags.h"
#include "client/cli/flags/model_flags.h"
#include "client/lib/attention_client.h"
#include "client/load/workload.h"

namespace attention {

/// What the help of the flags means by TENSOR and by the letters of shapes.
inline constexpr char kShapeLegend[] =
    R"(A TENSOR is FILE.npy, FILE.safetensors[:NAME] or random:2x5x512. Shapes: B sequences of S tokens;
E numbers for each token (d_model); Sq query rows, Sk keys, Sm rows of memory; H query heads and Hkv
key/value heads of width D; values of width Dv; T packed tokens, Tk packed keys of all sequences.

)";

struct RequestFlags {
  std::string model = "demo";
  // The input: exactly one of these members, where query, key and value count as one.
  std::string input;
  Shape random;
  RaggedTokens tokens;
  Shape random_tokens;
  std::vector<std::string> texts;
  std::string query, key, value;

  std::string memory, memory_values;  // memory alone: the input of an encoder
  RaggedTokens type_ids;
  bool no_special_tokens = false;
  std::vector<int64_t> lengths, memory_lengths, kv_lengths, query_offsets;
  std::string dtype;  // fp32, bf16 or fp16; empty: as the tensors are
  uint64_t seed = 0;
  ModelFlags run;
  AttentionFlags attention;

  bool has_input() const {
    return !(input.empty() && random.empty() && tokens.lengths.empty() && random_tokens.empty() &&
             texts.empty() && query.empty() && memory.empty());
  }
};

/// Adds the flags to `command`; texts that do not parse are refused by the parser.
void AddRequestFlags(CLI::App& command, RequestFlags& flags);

/// Returns INVALID_ARGUMENT for flags that are valid alone and cannot be combined.
absl::Status CheckRequestFlags(const RequestFlags& flags);

/// Reads or generates the tensors. Asks the server for the vocabulary if tokens are to be random.
/// REQUIRES: CheckRequestFlags is OK.
absl::StatusOr<Workload> MakeWorkload(const RequestFlags& flags, AttentionClient& client);

}  // namespace attention
