// The rules that the options of a sequence obey: the one place that knows them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/attention/attention.h"

namespace attention {

/// What a sequence's options must fit.
struct OptionsFit {
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  /// Keys of the sequence, cached ones included.
  int64_t kv_len = 0;
  bool has_cache = false;
  /// A bias or a mask comes, though its view is not filled in yet.
  bool has_bias = false;
  bool has_mask = false;
};

/// The first option that is wrong.
struct OptionError {
  /// As in AttentionOptions: "window", "rotary.base", "global_tokens[3]".
  std::string field;
  /// "expected 0 or more, found -1".
  std::string text;
};

/// Null: a head of this width takes the rotation.
std::optional<OptionError> CheckRotary(const Rotary& rotary, int64_t head_dim);

/// Null: attention takes the options. Costs as much as the options are long.
std::optional<OptionError> CheckOptions(const AttentionOptions& options, const OptionsFit& fit);

/// INVALID_ARGUMENT for a negative number, or for no memory.
absl::Status ValidateTopWeights(const TopWeights& top, int64_t sequence);

/// As INVALID_ARGUMENT, said of the sequence.
absl::Status StatusOf(const OptionError& error, int64_t sequence);

}  // namespace attention
