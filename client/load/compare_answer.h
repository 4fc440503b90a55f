// An answer beside the one it should be.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/load/answer_check.h"

namespace attention {

using Doubles = std::vector<double>;

/// In double precision.
struct ExpectedAnswer {
  Doubles output;
  // By sequence.
  std::vector<Doubles> weights;      // [H, query_len, kv_len]
  std::vector<Doubles> log_sum_exp;  // [H, query_len]
};

/// INVALID_ARGUMENT when `result` has another shape.
absl::StatusOr<AnswerCheck> CompareAnswer(const ExpectedAnswer& expected,
                                          const AttendResult& result, double tolerance);

}  // namespace attention
