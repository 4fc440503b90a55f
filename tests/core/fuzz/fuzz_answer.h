// The ways to compute a random call of attention.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "tests/core/fuzz/fuzz_case.h"
#include "tests/core/fuzz/fuzz_problem.h"

namespace attention {

/// What one way of computing leaves.
struct Answer {
  Tensor output;
  /// As in AttentionSequence; empty where nothing is wanted.
  std::vector<double> weights, log_sum_exp, top_weights, top_keys;
  bool has_clean_padding = true;
};

/// Computes the problem in the way that the case names.
absl::StatusOr<Answer> Compute(FuzzProblem& problem, const FuzzCase& way);

/// The same question, computed in the simplest way that promises the same bits.
FuzzCase Alone(const FuzzCase& c);

struct MergedAnswer {
  std::vector<double> output, log_sum_exp;
};
/// What is merged from parts of the keys.
absl::StatusOr<MergedAnswer> MergedParts(const FuzzProblem& problem, const FuzzCase& c);

}  // namespace attention
