#include "server/services/plan/read_options.h"

#include <cmath>
#include <string>

#include "core/runtime/status_macros.h"
#include "proto/codec/option_fields.h"
#include "server/services/plan/field_error.h"

namespace attention {
namespace {

// The enumerators are in the order of the wire's.
static_assert(static_cast<int>(Similarity::kLinear) == v1::LINEAR &&
              static_cast<int>(Similarity::kTriangular) == v1::TRIANGULAR &&
              static_cast<int>(Similarity::kBox) == v1::BOX &&
              static_cast<int>(Rotary::Scaling::kLlama3) == v1::Rotary::LLAMA3 &&
              static_cast<int>(Rotary::Scaling::kLinear) == v1::Rotary::LINEAR);

/// Reads a number. A number that FP32 cannot hold would be another number in the core's options.
absl::StatusOr<float> ReadFloat(double value, const std::string& field) {
  const auto result = static_cast<float>(value);
  if ((std::isfinite(value) && !std::isfinite(result)) || (value != 0 && result == 0)) {
    return Wrong(OptionPath(field), ": expected a number that FP32 can hold, found ", value);
  }
  return result;
}

absl::Status ReadSimilarity(const v1::AttentionOptions& wire, AttentionOptions& options) {
  if (!v1::Similarity_IsValid(wire.similarity())) {
    return Wrong(OptionPath("similarity"),
                 ": expected DOT_PRODUCT (0), GAUSSIAN (1), BOX (2), TRIANGULAR (3) or LINEAR "
                 "(4), found ",
                 static_cast<int>(wire.similarity()));
  }
  options.similarity = static_cast<Similarity>(wire.similarity());
  options.bandwidth = wire.bandwidth();
  return absl::OkStatus();
}

absl::Status ReadLogits(const v1::AttentionOptions& wire, AttentionOptions& options) {
  if (wire.has_scale()) {
    ASSIGN_OR_RETURN(options.scale, ReadFloat(wire.scale(), "scale"));
  }
  ASSIGN_OR_RETURN(options.softcap, ReadFloat(wire.softcap(), "softcap"));
  options.alibi_slopes = {wire.alibi_slopes().data(),
                          static_cast<size_t>(wire.alibi_slopes_size())};
  options.sinks = {wire.sinks().data(), static_cast<size_t>(wire.sinks_size())};
  return absl::OkStatus();
}

/// Refuses a number that the scaling does not use, unless it is the default, which changes nothing.
absl::Status CheckUnused(const v1::Rotary& wire, const Rotary& rotary) {
  static constexpr Rotary kDefaults;
  const bool is_llama3 = wire.scaling() == v1::Rotary::LLAMA3;
  const struct {
    const char* field;
    bool is_used;
    double found;
    double expected;
  } numbers[] = {
      {"rotary.factor", wire.scaling() != v1::Rotary::NONE, rotary.factor, kDefaults.factor},
      {"rotary.low_freq_factor", is_llama3, rotary.low_freq_factor, kDefaults.low_freq_factor},
      {"rotary.high_freq_factor", is_llama3, rotary.high_freq_factor, kDefaults.high_freq_factor},
      {"rotary.original_max_positions", is_llama3,
       static_cast<double>(rotary.original_max_positions),
       static_cast<double>(kDefaults.original_max_positions)}};
  for (const auto& number : numbers) {
    if (!number.is_used && number.found != number.expected) {
      return Wrong(OptionPath(number.field), ": expected ", number.expected, " with scaling ",
                   v1::Rotary::Scaling_Name(wire.scaling()), ", found ", number.found);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadRotary(const v1::Rotary& wire, AttentionOptions& options) {
  if (!v1::Rotary::Scaling_IsValid(wire.scaling())) {
    return Wrong(OptionPath("rotary.scaling"),
                 ": expected NONE (0), LINEAR (1) or LLAMA3 (2), found ",
                 static_cast<int>(wire.scaling()));
  }
  options.rotary = RotaryOf<Rotary>(wire);
  return CheckUnused(wire, *options.rotary);
}

absl::StatusOr<RmsNorm> ReadNorm(const v1::RmsNorm& wire, int64_t head_dim,
                                 const std::string& field) {
  if (!wire.weight().empty() && wire.weight_size() != head_dim) {
    return Wrong(OptionPath(field), ".weight: expected no value or one for each of a head's ",
                 head_dim, " elements, found ", wire.weight_size());
  }
  RmsNorm norm;
  norm.weight = wire.weight().empty() ? nullptr : wire.weight().data();
  if (wire.has_epsilon()) {
    ASSIGN_OR_RETURN(norm.epsilon, ReadFloat(wire.epsilon(), field + ".epsilon"));
  }
  return norm;
}

absl::Status ReadRows(const v1::AttentionOptions& wire, int64_t head_dim,
                      AttentionOptions& options) {
  if (wire.has_rotary()) {
    RETURN_IF_ERROR(ReadRotary(wire.rotary(), options));
  }
  if (wire.has_query_norm()) {
    ASSIGN_OR_RETURN(options.query_norm, ReadNorm(wire.query_norm(), head_dim, "query_norm"));
  }
  if (wire.has_key_norm()) {
    ASSIGN_OR_RETURN(options.key_norm, ReadNorm(wire.key_norm(), head_dim, "key_norm"));
  }
  return absl::OkStatus();
}

}  // namespace

FieldPath OptionPath(const std::string& option) { return {absl::StrCat("options.", option)}; }

void ReadVisibility(const v1::AttentionOptions& wire, AttentionOptions& options) {
  ReadVisibilityFields(wire, kVisibilityNumbers, options);
}

void ReadVisibility(const v1::SequenceOptions& wire, AttentionOptions& options) {
  ReadVisibilityFields(wire, kVisibilityNumbers, options);
}

absl::StatusOr<AttentionOptions> ReadSharedOptions(const v1::AttentionOptions& wire,
                                                   int64_t head_dim) {
  AttentionOptions options;
  ReadVisibility(wire, options);
  RETURN_IF_ERROR(ReadSimilarity(wire, options));
  RETURN_IF_ERROR(ReadLogits(wire, options));
  RETURN_IF_ERROR(ReadRows(wire, head_dim, options));
  return options;
}

}  // namespace attention
