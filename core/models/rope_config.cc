#include "core/models/rope_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/kernels/attention/attention_plan.h"
#include "core/kernels/attention/rotary.h"

namespace attention {
namespace {

constexpr ModelConfig::NumberRange kScales = ModelConfig::kScales;
constexpr char kOriginal[] = "original_max_position_embeddings";
constexpr char kPartial[] = "partial_rotary_factor";

/// The unscaled rotation.
struct Rope {
  std::string type;
  double theta = 0;
  /// The number of elements of a head that are rotated. An odd number is rounded up, since elements
  /// are rotated in pairs.
  int64_t width = 0;
  int64_t original_max_positions = 0;
  int64_t max_positions = 0;

  double Frequency(int64_t pair) const {
    return std::pow(theta, -2.0 * static_cast<double>(pair) / static_cast<double>(width));
  }
  int64_t num_pairs() const { return (width + 1) / 2; }
};

/// Returns rope_scaling if it says anything, be it no kind (which is then the default), else
/// rope_parameters. The object is empty when the key is absent.
ModelConfig RopeObject(ModelConfig& config) {
  ModelConfig scaling = config.Object({"rope_scaling"});
  return config.HasMembers("rope_scaling") ? scaling : config.Object({"rope_parameters"});
}

std::string TypeOf(ModelConfig& object) { return object.Text({"rope_type", "type"}, "default"); }

/// Returns the kind of scaling. A family that has only LongRoPE calls it "su" or "yarn" in its
/// first files.
std::string ReadType(ModelConfig& object, const RopeRules& rules) {
  std::string type = TypeOf(object);
  if (rules.types == std::vector<std::string>{"longrope"} && (type == "su" || type == "yarn")) {
    type = "longrope";
  }
  if (type != "default" &&
      std::find(rules.types.begin(), rules.types.end(), type) == rules.types.end()) {
    object.Refuse("rope_type", absl::StrCat("one of default, ", absl::StrJoin(rules.types, ", ")),
                  absl::StrCat("\"", type, "\""));
  }
  return type;
}

/// Returns the part of each head that is rotated. Beside a kind of scaling, transformers lets the
/// top level's partial_rotary_factor replace that of the object and of a family's own key.
double ReadPartial(ModelConfig& object, ModelConfig& config, const RopeRules& rules) {
  constexpr ModelConfig::NumberRange kParts{0, 1};
  const double partial = object.Number(
      {kPartial}, kParts, config.Number({rules.partial_key}, kParts, rules.default_partial));
  return TypeOf(object) == "default" ? partial : config.Number({kPartial}, kParts, partial);
}

/// Returns the number of elements of each head that are rotated.
int64_t ReadWidth(ModelConfig& object, ModelConfig& config, const RopeRules& rules) {
  if (rules.head_dim > kMaxHeadDim) {
    config.Refuse("head_dim", absl::StrCat("at most ", kMaxHeadDim), absl::StrCat(rules.head_dim));
    return 0;
  }
  const double partial = ReadPartial(object, config, rules);
  int64_t width = rules.head_dim;
  if (rules.is_partial_allowed) {
    width = static_cast<int64_t>(static_cast<double>(rules.head_dim) * partial);
  } else if (partial != 1 && TypeOf(object) != "default") {
    object.Refuse(kPartial, absl::StrCat("1 beside rope_type ", TypeOf(object)),
                  absl::StrCat(partial));
  }
  if (width % 2 != 0 && width == rules.head_dim) {
    config.Refuse("head_dim", "an even number, since elements are rotated in pairs",
                  absl::StrCat(width));
  }
  return width;
}

void ScaleLinearly(ModelConfig& object, const Rope& rope, RotaryDescription& result) {
  const double factor = object.Number({"factor"}, kScales);
  for (int64_t i = 0; i < rope.num_pairs(); ++i) {
    result.frequencies.push_back(rope.Frequency(i) / factor);
  }
}

/// Reads Llama 3.1's scaling, which Rotary::Scaling describes.
void ReadLlama3(ModelConfig& object, const Rope& rope, RotaryDescription& result) {
  const Rotary scaling{.factor = object.Number({"factor"}, kScales),
                       .low_freq_factor = object.Number({"low_freq_factor"}, kScales),
                       .high_freq_factor = object.Number({"high_freq_factor"}, kScales),
                       .original_max_positions = rope.original_max_positions};
  if (!(scaling.high_freq_factor > scaling.low_freq_factor)) {
    object.Refuse("high_freq_factor",
                  absl::StrCat("more than low_freq_factor ", scaling.low_freq_factor),
                  absl::StrCat(scaling.high_freq_factor));
  }
  for (int64_t i = 0; i < rope.num_pairs(); ++i) {
    result.frequencies.push_back(ScaleAsLlama3(rope.Frequency(i), scaling));
  }
}

double YarnMagnitude(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

double YarnMagnitudeOf(ModelConfig& object, double factor) {
  constexpr ModelConfig::NumberRange kRange{0, kScales.last};
  const double scale = object.Number({"mscale"}, kRange, 0);
  const double scale_all = object.Number({"mscale_all_dim"}, kRange, 0);
  const double fallback = scale != 0 && scale_all != 0
                              ? YarnMagnitude(factor, scale) / YarnMagnitude(factor, scale_all)
                              : YarnMagnitude(factor, 1);
  return object.Number({"attention_factor"}, kScales, fallback);
}

/// Computes YaRN's frequencies. Pairs that rotate more than beta_fast times within the original
/// length keep theirs, those that rotate less than beta_slow times are divided by the factor, and
/// those between are interpolated.
void ScaleAsYarn(ModelConfig& object, const Rope& rope, RotaryDescription& result) {
  if (rope.width % 2 != 0) {
    // Transformers has one pair fewer for the ramp than for the rotation.
    object.Refuse("rope_type", "another kind where an odd number of elements is rotated",
                  absl::StrCat("\"yarn\" with ", rope.width));
  }
  const auto original = static_cast<double>(rope.original_max_positions);
  const double factor = object.IsNull("factor") ? static_cast<double>(rope.max_positions) / original
                                                : object.Number({"factor"}, kScales);
  const auto dim = static_cast<double>(rope.width);
  const auto pair_that_rotates = [&](double times) {
    return dim * std::log(original / (times * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
  };
  double low = pair_that_rotates(object.Number({"beta_fast"}, kScales, 32));
  double high = pair_that_rotates(object.Number({"beta_slow"}, kScales, 1));
  if (!object.IsNull("truncate") && object.Flag({"truncate"}, true)) {  // null is false
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  high += low == high ? 0.001 : 0;
  for (int64_t i = 0; i < rope.num_pairs(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    result.frequencies.push_back(rope.Frequency(i) * (stretched / factor + 1 - stretched));
  }
  result.rotary.magnitude = YarnMagnitudeOf(object, factor);
}

std::vector<double> LongRopeFrequencies(ModelConfig& object, const char* key, const Rope& rope) {
  std::vector<double> factors = object.Numbers(key, rope.num_pairs(), kScales);
  for (int64_t i = 0; i < rope.num_pairs(); ++i) {
    factors[i] = rope.Frequency(i) / factors[i];
  }
  return factors;
}

void ScaleAsLongRope(ModelConfig& object, const Rope& rope, RotaryDescription& result) {
  if (rope.original_max_positions < 2) {
    object.Refuse(kOriginal, "2 or more", absl::StrCat(rope.original_max_positions));
    return;
  }
  const auto original = static_cast<double>(rope.original_max_positions);
  const double factor =
      object.Number({"factor"}, kScales, static_cast<double>(rope.max_positions) / original);
  result.frequencies = LongRopeFrequencies(object, "short_factor", rope);
  result.long_frequencies = LongRopeFrequencies(object, "long_factor", rope);
  result.long_from = rope.original_max_positions;
  result.rotary.magnitude =
      object.Number({"attention_factor"}, kScales,
                    factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original)));
}

void Scale(ModelConfig& object, const Rope& rope, RotaryDescription& result) {
  if (rope.type == "linear") {
    ScaleLinearly(object, rope, result);
  } else if (rope.type == "llama3") {
    ReadLlama3(object, rope, result);
  } else if (rope.type == "yarn") {
    ScaleAsYarn(object, rope, result);
  } else if (rope.type == "longrope") {
    ScaleAsLongRope(object, rope, result);
  } else if (rope.width % 2 != 0) {
    for (int64_t i = 0; i < rope.num_pairs(); ++i) {
      result.frequencies.push_back(rope.Frequency(i));
    }
  }
}

}  // namespace

std::optional<RotaryDescription> ReadRope(ModelConfig& config, const RopeRules& rules) {
  ModelConfig object = RopeObject(config);
  if (object.Has("full_attention") || object.Has("sliding_attention")) {
    config.Refuse("rope_parameters", "one object for all layers", "one for each kind of layer");
  }
  Rope rope{.type = ReadType(object, rules),
            .width = ReadWidth(object, config, rules),
            .max_positions = rules.max_positions};
  constexpr ModelConfig::NumberRange kBases{1.001, 1e18};
  rope.theta =
      object.Number({"rope_theta"}, kBases, config.Number({rules.theta_key}, kBases, 10000));
  rope.original_max_positions =
      config.Size({kOriginal}, rules.original_max_positions > 0
                                   ? rules.original_max_positions
                                   : object.Size({kOriginal}, rules.max_positions));
  RotaryDescription result{.rotary = {.dim = 2 * rope.num_pairs(), .base = rope.theta}};
  Scale(object, rope, result);
  if (rope.type == "dynamic") {
    object.Number({"factor"}, kScales);
    result.max_positions = rope.max_positions;
  }
  object.Number({"factor"}, kScales, 1);  // checked for kinds that do not use it, too
  if (!object.status().ok()) {
    config.Adopt(object.status());
  }
  return rope.width == 0 ? std::nullopt : std::optional(result);
}

std::optional<int64_t> RopeMaxPositions(ModelConfig& config, int64_t max_positions) {
  ModelConfig object = RopeObject(config);
  return TypeOf(object) == "dynamic" ? std::optional(max_positions) : std::nullopt;
}

}  // namespace attention
