// The rules for the options of a sequence. They stand here and nowhere else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/attention/attention_sequence.h"

namespace attention {

/// The extents and inputs of a sequence, which its options must fit.
struct OptionsFit {
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  /// The number of keys of the sequence, cached keys included.
  int64_t kv_len = 0;
  bool has_cache = false;
  /// Whether a bias and a mask are given, even if their views are not filled in yet.
  bool has_bias = false;
  bool has_mask = false;
};

/// The first option that is wrong.
struct OptionError {
  /// The name of the field in AttentionOptions: "window", "rotary.base", "global_tokens[3]".
  std::string field;
  /// The expected and the found value: "expected 0 or more, found -1".
  std::string text;
};

/// Checks the rotation of a head of width `head_dim`; nullopt when it is valid.
std::optional<OptionError> CheckRotary(const Rotary& rotary, int64_t head_dim);

/// Checks all options; nullopt when they are valid. The time is proportional to the length of the
/// options.
std::optional<OptionError> CheckOptions(const AttentionOptions& options, const OptionsFit& fit);

/// Returns INVALID_ARGUMENT for a negative k, for more keys than their numbers of 32 bits can name,
/// or when the output memory is missing.
absl::Status ValidateTopWeights(const TopWeights& top, int64_t kv_len, int64_t sequence);

/// Returns `error` as INVALID_ARGUMENT; the text names the sequence.
absl::Status StatusOf(const OptionError& error, int64_t sequence);

}  // namespace attention
