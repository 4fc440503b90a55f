// The flags that say how to attend.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

inline constexpr char kStandardAlibi[] = "standard";

struct AttentionFlags {
  /// The options that are plain values.
  v1::AttentionOptions options;
  // Lists of whole numbers; ';' separates sequences.
  std::string causal_each, global_tokens;
  /// The texts of flags with a number for each sequence, by the name of the field, "window".
  std::map<std::string, std::string> visibility_numbers;
  std::string alibi;  // kStandardAlibi, or one slope for each head
  std::string sinks;
  std::string rotary_scaling;
  std::string query_norm, key_norm;  // "ones", or a tensor
  std::optional<double> norm_epsilon;
  std::string bias, mask;  // tensors

  /// Whether any of the flags was given.
  bool is_given() const;
};

/// Adds the flags to `command`; texts that do not parse are refused by the parser.
void AddAttentionFlags(CLI::App& command, AttentionFlags& flags);

/// Parses "linear:4" or "llama3:8[,LOW,HIGH,POSITIONS]" to a message with only the scaling.
/// INVALID_ARGUMENT quotes what is wrong.
absl::StatusOr<v1::Rotary> ParseRotaryScaling(const std::string& text);

}  // namespace attention
