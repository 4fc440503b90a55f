// The loss of accuracy by the element type in which a model's weights are served.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/models/model.h"
#include "core/runtime/yield.h"

namespace attention {

/// The difference between an output of a model and the same output of its f32 copy. Both errors are
/// infinite when a value of either is not finite.
struct ModelDifference {
  /// The compared output: "layer 3", "last hidden states" or "logits".
  std::string of;
  double max_abs_error = 0;
  /// The norm of the difference divided by the norm of the f32 output.
  double relative_l2 = 0;
  /// For logits: the share of rows whose largest logit is the same.
  std::optional<double> top1_agreement = {};
};

struct ModelVerification {
  ModelInfo info;
  /// The number of tokens of the compared sequence.
  int64_t num_tokens = 0;
  /// Empty for weights in f32, which are exact.
  std::vector<ModelDifference> differences = {};
};

/// Gives both models the same seeded problems: attention of each layer over N(0, 1)-like rows, then
/// the stack. CANCELLED when `yield` returned false. REQUIRES: `exact` is a copy of `served` in
/// f32.
absl::StatusOr<ModelVerification> CompareModels(const Model& served, const Model& exact,
                                                const Yield& yield);

}  // namespace attention
