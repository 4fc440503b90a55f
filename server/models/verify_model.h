// What it costs in accuracy to keep a model's weights as they are served.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/models/model.h"

namespace attention {

/// How far one of a model's answers is from the same answer of its f32 copy.
struct ModelDifference {
  /// "layer 3", "last hidden states" or "logits".
  std::string of;
  double max_abs_error = 0;
  /// Norm of the difference over the norm of the f32 answer.
  double relative_l2 = 0;
  /// Of logits: the share of rows whose largest one is the same.
  std::optional<double> top1_agreement = {};
};

struct ModelVerification {
  ModelInfo info;
  /// Of the sequence that was asked.
  int64_t num_tokens = 0;
  /// Empty for weights in f32, which are exact.
  std::vector<ModelDifference> differences = {};
};

/// Asks both the same seeded problems: attention of each layer over N(0, 1)-like rows, then the
/// stack. CANCELLED when `go_on` said so. REQUIRES: `exact` is a copy of `served` in f32.
absl::StatusOr<ModelVerification> CompareModels(const Model& served, const Model& exact,
                                                const std::function<bool()>& go_on);

}  // namespace attention
