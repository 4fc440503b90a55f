#include "server/services/read_options.h"

#include <cmath>
#include <initializer_list>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/services/wrong.h"

namespace attention {
namespace {

// Far beyond any sequence, and no sum of positions overflows.
constexpr int64_t kMaxPositionOffset = int64_t{1} << 40;

// In the order of the wire's.
static_assert(static_cast<int>(Similarity::kLinear) == v1::LINEAR &&
              static_cast<int>(Similarity::kTriangular) == v1::TRIANGULAR &&
              static_cast<int>(Similarity::kBox) == v1::BOX &&
              static_cast<int>(Rotary::Scaling::kLlama3) == v1::Rotary::LLAMA3 &&
              static_cast<int>(Rotary::Scaling::kLinear) == v1::Rotary::LINEAR);

enum class Sign { kAny, kNotNegative, kPositive };

absl::StatusOr<float> ReadFloat(double value, Sign sign, const char* field) {
  const auto result = static_cast<float>(value);
  const bool has_sign =
      sign == Sign::kAny || result > 0 || (sign == Sign::kNotNegative && value == 0);
  if (!std::isfinite(result) || !has_sign) {
    return Wrong("options.", field, ": expected a finite",
                 sign == Sign::kPositive ? " positive" : "", " FP32 number",
                 sign == Sign::kNotNegative ? " of at least 0" : "", ", found ", value);
  }
  return result;
}

absl::Status CheckPositive(double value, const char* field) {
  if (!std::isfinite(value) || value <= 0) {
    return Wrong("options.", field, ": expected a finite positive number, found ", value);
  }
  return absl::OkStatus();
}

using Floats = google::protobuf::RepeatedField<float>;

absl::StatusOr<std::span<const float>> ReadPerHead(const Floats& values, int64_t num_heads,
                                                   const char* field) {
  if (!values.empty() && values.size() != num_heads) {
    return Wrong("options.", field, ": expected no value or one for each of ", num_heads,
                 " heads, found ", values.size());
  }
  for (int i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      return Wrong("options.", field, "[", i, "]: expected a finite number, found ", values[i]);
    }
  }
  return std::span<const float>(values.data(), values.size());
}

struct Setting {
  const char* field;
  bool is_set;
};

absl::Status ExpectUnset(std::initializer_list<Setting> settings, const std::string& path,
                         const v1::AttentionOptions& wire) {
  for (const Setting& setting : settings) {
    if (setting.is_set) {
      return Wrong("options.", path, setting.field, ": expected none with similarity ",
                   v1::Similarity_Name(wire.similarity()), ", found one");
    }
  }
  return absl::OkStatus();
}

// What only the logits of dot products have.
absl::Status ExpectNoLogits(const v1::AttentionOptions& wire) {
  return ExpectUnset({{"scale", wire.has_scale()},
                      {"softcap", wire.softcap() != 0},
                      {"alibi_slopes", !wire.alibi_slopes().empty()},
                      {"sinks", !wire.sinks().empty()},
                      {"bias", wire.has_bias()}},
                     "", wire);
}

// `part` is `wire`, or one of its sequences.
template <typename Part>
absl::Status ExpectCausalOnly(const Part& part, const std::string& path,
                              const v1::AttentionOptions& wire) {
  return ExpectUnset({{"window", part.window() != 0},
                      {"window_right", part.window_right() != 0},
                      {"prefix", part.prefix() != 0},
                      {"global_tokens", !part.global_tokens().empty()}},
                     path, wire);
}

absl::Status CheckLinear(const v1::AttentionOptions& wire) {
  RETURN_IF_ERROR(ExpectCausalOnly(wire, "", wire));
  RETURN_IF_ERROR(ExpectUnset({{"mask", wire.has_mask()}}, "", wire));
  for (int i = 0; i < wire.sequences_size(); ++i) {
    RETURN_IF_ERROR(ExpectCausalOnly(wire.sequences(i), absl::StrCat("sequences[", i, "]."), wire));
  }
  return absl::OkStatus();
}

absl::Status ReadSimilarity(const v1::AttentionOptions& wire, AttentionOptions& options) {
  if (!v1::Similarity_IsValid(wire.similarity())) {
    return Wrong(
        "options.",
        "similarity: expected DOT_PRODUCT (0), GAUSSIAN (1), BOX (2), TRIANGULAR (3) or LINEAR "
        "(4), found ",
        static_cast<int>(wire.similarity()));
  }
  options.similarity = static_cast<Similarity>(wire.similarity());
  if (IsRegression(options.similarity)) {
    RETURN_IF_ERROR(CheckPositive(wire.bandwidth(), "bandwidth"));
    options.bandwidth = wire.bandwidth();
    return ExpectNoLogits(wire);
  }
  if (wire.bandwidth() != 0) {
    return Wrong("options.", "bandwidth: expected 0 with similarity ",
                 v1::Similarity_Name(wire.similarity()), ", found ", wire.bandwidth());
  }
  if (options.similarity == Similarity::kLinear) {
    RETURN_IF_ERROR(ExpectNoLogits(wire));
    return CheckLinear(wire);
  }
  return absl::OkStatus();
}

absl::Status ReadLogits(const v1::AttentionOptions& wire, int64_t num_heads,
                        AttentionOptions& options) {
  if (wire.has_scale()) {
    ASSIGN_OR_RETURN(options.scale, ReadFloat(wire.scale(), Sign::kAny, "scale"));
  }
  ASSIGN_OR_RETURN(options.softcap, ReadFloat(wire.softcap(), Sign::kNotNegative, "softcap"));
  ASSIGN_OR_RETURN(options.alibi_slopes,
                   ReadPerHead(wire.alibi_slopes(), num_heads, "alibi_slopes"));
  ASSIGN_OR_RETURN(options.sinks, ReadPerHead(wire.sinks(), num_heads, "sinks"));
  return absl::OkStatus();
}

absl::Status CheckFrequencies(const Rotary& rotary) {
  RETURN_IF_ERROR(CheckPositive(rotary.base, "rotary.base"));
  RETURN_IF_ERROR(CheckPositive(rotary.factor, "rotary.factor"));
  RETURN_IF_ERROR(CheckPositive(rotary.low_freq_factor, "rotary.low_freq_factor"));
  RETURN_IF_ERROR(CheckPositive(rotary.high_freq_factor, "rotary.high_freq_factor"));
  if (rotary.high_freq_factor <= rotary.low_freq_factor) {
    return Wrong("options.", "rotary.high_freq_factor: expected more than low_freq_factor ",
                 rotary.low_freq_factor, ", found ", rotary.high_freq_factor);
  }
  if (rotary.original_max_positions < 1) {
    return Wrong("options.", "rotary.original_max_positions: expected 1 or more, found ",
                 rotary.original_max_positions);
  }
  return absl::OkStatus();
}

absl::Status CheckRotary(const v1::Rotary& wire, const Rotary& rotary, int64_t head_dim) {
  if (!v1::Rotary::Scaling_IsValid(wire.scaling())) {
    return Wrong("options.", "rotary.scaling: expected NONE (0), LINEAR (1) or LLAMA3 (2), found ",
                 static_cast<int>(wire.scaling()));
  }
  const int64_t dim = wire.dim() == 0 ? head_dim : wire.dim();
  if (dim < 2 || dim > head_dim || dim % 2 != 0) {
    return Wrong("options.", "rotary.dim: expected an even number of at most ", head_dim,
                 ", a head's elements, found ", dim);
  }
  if (rotary.position_offset < -kMaxPositionOffset || rotary.position_offset > kMaxPositionOffset) {
    return Wrong("options.", "rotary.position_offset: expected ", -kMaxPositionOffset, " to ",
                 kMaxPositionOffset, ", found ", rotary.position_offset);
  }
  return CheckFrequencies(rotary);
}

absl::Status ReadRotary(const v1::Rotary& wire, int64_t head_dim, AttentionOptions& options) {
  Rotary rotary;
  rotary.dim = wire.dim();
  rotary.base = wire.has_base() ? wire.base() : rotary.base;
  rotary.interleaved = wire.interleaved();
  rotary.scaling = static_cast<Rotary::Scaling>(wire.scaling());
  rotary.factor = wire.has_factor() ? wire.factor() : rotary.factor;
  rotary.low_freq_factor =
      wire.has_low_freq_factor() ? wire.low_freq_factor() : rotary.low_freq_factor;
  rotary.high_freq_factor =
      wire.has_high_freq_factor() ? wire.high_freq_factor() : rotary.high_freq_factor;
  rotary.original_max_positions = wire.has_original_max_positions() ? wire.original_max_positions()
                                                                    : rotary.original_max_positions;
  rotary.position_offset = wire.position_offset();
  options.rotary = rotary;
  return CheckRotary(wire, rotary, head_dim);
}

absl::StatusOr<RmsNorm> ReadNorm(const v1::RmsNorm& wire, int64_t head_dim,
                                 const std::string& field) {
  if (!wire.weight().empty() && wire.weight_size() != head_dim) {
    return Wrong("options.", field, ".weight: expected no value or one for each of a head's ",
                 head_dim, " elements, found ", wire.weight_size());
  }
  RmsNorm norm;
  norm.weight = wire.weight().empty() ? nullptr : wire.weight().data();
  if (wire.has_epsilon()) {
    ASSIGN_OR_RETURN(norm.epsilon,
                     ReadFloat(wire.epsilon(), Sign::kPositive, (field + ".epsilon").c_str()));
  }
  return norm;
}

absl::Status ReadRows(const v1::AttentionOptions& wire, int64_t head_dim,
                      AttentionOptions& options) {
  if (wire.has_rotary()) {
    RETURN_IF_ERROR(ReadRotary(wire.rotary(), head_dim, options));
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

absl::StatusOr<AttentionOptions> ReadSharedOptions(const v1::AttentionOptions& wire,
                                                   int64_t num_heads, int64_t head_dim) {
  AttentionOptions options;
  options.causal = wire.causal();
  RETURN_IF_ERROR(ReadSimilarity(wire, options));
  RETURN_IF_ERROR(ReadLogits(wire, num_heads, options));
  RETURN_IF_ERROR(ReadRows(wire, head_dim, options));
  return options;
}

}  // namespace attention
