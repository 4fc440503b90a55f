// The rotary part of a config.json, as transformers 4 (rope_theta, rope_scaling, ...) and 5
// (rope_parameters) write it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/models/description.h"
#include "core/models/model_config.h"

namespace attention {

struct RopeRules {
  int64_t head_dim = 0;
  int64_t max_positions = 0;
  /// The top-level keys that count where the rope object lacks a key.
  const char* theta_key = "rope_theta";
  const char* partial_key = "partial_rotary_factor";
  double default_partial = 1;
  /// Whether part of a head may stay unrotated.
  bool is_partial_allowed = false;
  /// The original number of positions where the top level does not give it; 0: that of the rope
  /// object, or else max_positions.
  int64_t original_max_positions = 0;
  /// The kinds of scaling that the family accepts. All families accept "default".
  std::vector<std::string> types = {"linear", "dynamic", "llama3", "longrope", "yarn"};
};

/// Reads the rotation; nullopt when no element of a head is rotated. Kinds (rope_type): default;
/// linear (Chen et al. 2023); dynamic, up to max_positions, where it equals the default; llama3;
/// yarn (Peng et al. 2023); longrope (Ding et al. 2024). Any other kind is an error in `config`.
std::optional<RotaryDescription> ReadRope(ModelConfig& config, const RopeRules& rules);

/// Returns the longest sequence for which the rotations of this config are valid; nullopt: any.
std::optional<int64_t> RopeMaxPositions(ModelConfig& config, int64_t max_positions);

}  // namespace attention
