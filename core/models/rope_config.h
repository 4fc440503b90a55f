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
  /// Top-level keys, for what the rope object does not say.
  const char* theta_key = "rope_theta";
  const char* partial_key = "partial_rotary_factor";
  double default_partial = 1;
  /// Whether part of a head may stay as it is.
  bool is_partial_allowed = false;
  /// Where the top level does not say; 0: as the rope object does, else max_positions.
  int64_t original_max_positions = 0;
  /// Kinds of scaling; all families take "default".
  std::vector<std::string> types = {"linear", "dynamic", "llama3", "yarn"};
};

/// Nullopt where no element of a head is turned. Kinds (rope_type): default; linear (Chen et al.
/// 2023); dynamic, served up to max_positions, where it is the default; llama3; yarn (Peng et al.
/// 2023); longrope (Ding et al. 2024). Other kinds are left as an error in `config`.
std::optional<RotaryDescription> ReadRope(ModelConfig& config, const RopeRules& rules);

/// Longest sequence that the rotations of this config stand for; nullopt: any.
std::optional<int64_t> RopeMaxPositions(ModelConfig& config, int64_t max_positions);

}  // namespace attention
