// Compares an answer with the expected one.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"

namespace attention {

using Doubles = std::vector<double>;

struct AnswerCheck {
  /// |actual - expected| / |expected| over the whole output, padding included.
  double relative_l2 = 0.0;
  double tolerance = 0.0;
  /// The same for the other tensors of all sequences; absent if the answer does not have them.
  std::optional<double> weights_relative_l2 = std::nullopt;
  std::optional<double> log_sum_exp_relative_l2 = std::nullopt;
  std::optional<double> top_weights_relative_l2 = std::nullopt;

  bool agreed() const {
    return relative_l2 <= tolerance && weights_relative_l2.value_or(0.0) <= tolerance &&
           log_sum_exp_relative_l2.value_or(0.0) <= tolerance &&
           top_weights_relative_l2.value_or(0.0) <= tolerance;
  }
};

/// `count` elements of `tensor`, from the element `first` on.
Doubles DoublesOf(const Tensor& tensor, int64_t first, int64_t count);

/// The answer in double precision.
struct ExpectedAnswer {
  Doubles output;
  // One for each sequence.
  std::vector<Doubles> weights;      // [H, query_len, kv_len]
  std::vector<Doubles> log_sum_exp;  // [H, query_len]
};

/// Compares `result` with the expected answer. INVALID_ARGUMENT if it has another shape.
absl::StatusOr<AnswerCheck> CompareAnswer(const ExpectedAnswer& expected,
                                          const AttendResult& result, double tolerance);

}  // namespace attention
