#include "core/attention/check_options.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attention {
namespace {

using Found = std::optional<OptionError>;

constexpr AttentionOptions kDefaults;

bool IsPositive(double value) { return value > 0 && std::isfinite(value); }

/// Returns whether the number would count as 0 (core/runtime/flush_denormals.h).
bool IsDenormal(float number) { return std::fpclassify(number) == FP_SUBNORMAL; }

Found Error(std::string field, const std::string& expected, const absl::AlphaNum& found) {
  return OptionError{std::move(field),
                     absl::StrCat("expected ", expected, ", found ", found.Piece())};
}

Found CheckPositive(const char* field, double value) {
  return IsPositive(value) ? std::nullopt : Error(field, "a finite positive number", value);
}

Found CheckPosition(const char* field, int64_t value) {
  return value >= -kMaxPosition && value <= kMaxPosition
             ? std::nullopt
             : Error(field, absl::StrCat(-kMaxPosition, " to ", kMaxPosition), value);
}

Found CheckPerHead(const char* field, std::span<const float> values, int64_t num_heads) {
  if (!values.empty() && std::ssize(values) != num_heads) {
    return Error(field, absl::StrCat("no value or one for each of ", num_heads, " heads"),
                 values.size());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      return Error(absl::StrCat(field, "[", i, "]"), "a finite number", values[i]);
    }
  }
  return std::nullopt;
}

Found CheckNorm(const std::string& name, const std::optional<RmsNorm>& norm, int64_t head_dim) {
  if (!norm.has_value()) {
    return std::nullopt;
  }
  if (!IsPositive(norm->epsilon) || IsDenormal(norm->epsilon)) {
    return Error(name + ".epsilon",
                 IsDenormal(norm->epsilon) ? "at least 1.18e-38" : "a finite positive FP32 number",
                 norm->epsilon);
  }
  for (int64_t i = 0; norm->weight != nullptr && i < head_dim; ++i) {
    if (!std::isfinite(norm->weight[i])) {
      return Error(absl::StrCat(name, ".weight[", i, "]"), "a finite number", norm->weight[i]);
    }
  }
  return std::nullopt;
}

Found CheckGlobalTokens(std::span<const int64_t> tokens, int64_t kv_len) {
  int64_t next = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < next || tokens[i] >= kv_len) {
      return Error(absl::StrCat("global_tokens[", i, "]"),
                   absl::StrCat("strictly ascending positions below ", kv_len), tokens[i]);
    }
    next = tokens[i] + 1;
  }
  return std::nullopt;
}

Found CheckVisibility(const AttentionOptions& o, const OptionsFit& fit) {
  for (const VisibilityNumber& number : kVisibilityNumbers) {
    const int64_t least = kDefaults.*number.value;
    if (o.*number.value < least) {
      return Error(number.name, absl::StrCat(least, " or more"), o.*number.value);
    }
  }
  if (o.window_dilation > 1 && o.window == 0) {
    return Error("window_dilation", "1 without a window", o.window_dilation);
  }
  if (Found error = CheckPosition("query_offset", o.query_offset.value_or(0))) {
    return error;
  }
  return CheckGlobalTokens(o.global_tokens, fit.kv_len);
}

Found CheckLogits(const AttentionOptions& o, const OptionsFit& fit) {
  if (o.scale.has_value() && !std::isfinite(*o.scale)) {
    return Error("scale", "a finite FP32 number", *o.scale);
  }
  constexpr float kLargestSoftcap = 1e30f;  // a logit over a larger one may count as 0
  if (!(o.softcap >= 0 && o.softcap <= kLargestSoftcap)) {
    return Error("softcap", "0 to 1e30", o.softcap);
  }
  for (const auto& [name, number] :
       {std::pair("scale", o.scale.value_or(0)), std::pair("softcap", o.softcap)}) {
    if (IsDenormal(number)) {
      return Error(name, "0 or at least 1.18e-38 in magnitude", number);
    }
  }
  if (Found error = CheckPerHead("alibi_slopes", o.alibi_slopes, fit.num_heads)) {
    return error;
  }
  return CheckPerHead("sinks", o.sinks, fit.num_heads);
}

Found CheckRows(const AttentionOptions& o, const OptionsFit& fit) {
  if (Found error = CheckNorm("query_norm", o.query_norm, fit.head_dim)) {
    return error;
  }
  if (Found error = CheckNorm("key_norm", o.key_norm, fit.head_dim)) {
    return error;
  }
  return o.rotary.has_value() ? CheckRotary(*o.rotary, fit.head_dim) : std::nullopt;
}

/// Returns the first option that only dot products have; null for none.
const char* FindLogitOption(const AttentionOptions& o, const OptionsFit& fit) {
  const std::pair<const char*, bool> options[] = {
      {"scale", o.scale.has_value()},
      {"softcap", o.softcap != 0},
      {"alibi_slopes", !o.alibi_slopes.empty()},
      {"bias", o.bias.data != nullptr || fit.has_bias},
      {"sinks", !o.sinks.empty()},
  };
  const auto* found =
      std::ranges::find_if(options, [](const auto& option) { return option.second; });
  return found == std::end(options) ? nullptr : found->first;
}

/// Returns the first option that linear attention does not have, apart from those of
/// FindLogitOption; null for none.
const char* FindHidingOption(const AttentionOptions& o, const OptionsFit& fit) {
  for (const VisibilityNumber& number : kVisibilityNumbers) {
    if (o.*number.value != kDefaults.*number.value) {
      return number.name;
    }
  }
  return !o.global_tokens.empty()                 ? "global_tokens"
         : o.mask.data != nullptr || fit.has_mask ? "mask"
         : fit.has_cache                          ? "cache"
                                                  : nullptr;
}

Found CheckSimilarity(const AttentionOptions& o, const OptionsFit& fit) {
  const std::string name(Name(o.similarity));
  if (IsRegression(o.similarity)) {
    if (Found error = CheckPositive("bandwidth", o.bandwidth)) {
      return error;
    }
  } else if (o.bandwidth != 0) {
    return Error("bandwidth", absl::StrCat("0 with similarity ", name), o.bandwidth);
  }
  if (o.similarity == Similarity::kDotProduct) {
    return std::nullopt;
  }
  const char* refused = FindLogitOption(o, fit);
  if (refused == nullptr && o.similarity == Similarity::kLinear) {
    refused = FindHidingOption(o, fit);
  }
  return refused == nullptr ? std::nullopt
                            : Error(refused, absl::StrCat("none with similarity ", name), "one");
}

}  // namespace

std::optional<OptionError> CheckRotary(const Rotary& rotary, int64_t head_dim) {
  const int64_t dim = rotary.dim == 0 ? head_dim : rotary.dim;
  if (dim < 2 || dim % 2 != 0 || dim > head_dim) {
    return Error("rotary.dim",
                 absl::StrCat("an even number of at most ", head_dim, ", a head's elements"),
                 rotary.dim == 0 ? "none" : absl::StrCat(dim));
  }
  if (Found error = CheckPosition("rotary.position_offset", rotary.position_offset)) {
    return error;
  }
  const std::pair<const char*, double> numbers[] = {
      {"rotary.base", rotary.base},
      {"rotary.factor", rotary.factor},
      {"rotary.low_freq_factor", rotary.low_freq_factor},
      {"rotary.high_freq_factor", rotary.high_freq_factor}};
  for (const auto& [field, value] : numbers) {
    if (Found error = CheckPositive(field, value)) {
      return error;
    }
  }
  constexpr double kSmallest = 1e-100;  // the angles of a smaller one may be infinite
  for (const auto& [field, value] : {numbers[0], numbers[1]}) {
    if (value < kSmallest) {
      return Error(field, "at least 1e-100", value);
    }
  }
  if (rotary.high_freq_factor <= rotary.low_freq_factor) {
    return Error("rotary.high_freq_factor",
                 absl::StrCat("more than low_freq_factor ", rotary.low_freq_factor),
                 rotary.high_freq_factor);
  }
  return rotary.original_max_positions >= 1
             ? std::nullopt
             : Error("rotary.original_max_positions", "1 or more", rotary.original_max_positions);
}

std::optional<OptionError> CheckOptions(const AttentionOptions& options, const OptionsFit& fit) {
  for (const auto check : {CheckSimilarity, CheckLogits, CheckRows, CheckVisibility}) {
    if (Found error = check(options, fit)) {
      return error;
    }
  }
  return std::nullopt;
}

absl::Status StatusOf(const OptionError& error, int64_t sequence) {
  return absl::InvalidArgumentError(
      absl::StrCat("sequence ", sequence, ": ", error.field, ": ", error.text));
}

}  // namespace attention
