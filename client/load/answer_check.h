// Checks answers against the double-precision reference.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/attention_client.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

struct AnswerCheck {
  /// The relative error |actual - expected| / |expected| over the whole output, padding included.
  double relative_l2 = 0.0;
  double tolerance = 0.0;
  /// The tolerance of the other tensors, which are not rounded to the output's dtype.
  double others_tolerance = 0.0;
  /// The number of output values that are expected to be NaN or infinite.
  int64_t num_not_finite = 0;
  /// The relative errors of the other tensors of all sequences, by their names in the answer:
  /// "weights", "log_sum_exp", "top_weights".
  std::map<std::string, double> others_relative_l2 = {};

  bool agreed() const {
    return relative_l2 <= tolerance &&
           std::all_of(others_relative_l2.begin(), others_relative_l2.end(),
                       [this](const auto& other) { return other.second <= others_tolerance; });
  }
};

/// Recomputes `request` with core/reference: query_key_value from its tensors alone, everything
/// else with the weights that `model` (null for query_key_value) was seeded with. Costs seconds for
/// thousands of tokens. FAILED_PRECONDITION when the answer cannot be verified, for example because
/// the model has no seed; INVALID_ARGUMENT when `result` does not have the shape of an answer to
/// `request`.
absl::StatusOr<AnswerCheck> CheckAnswer(const v1::Model* model, const AttendRequest& request,
                                        const AttendResult& result);

/// Checks with the model as the server describes it; absent if the answer cannot be verified.
absl::StatusOr<std::optional<AnswerCheck>> CheckIfReproducible(AttentionClient& client,
                                                               const AttendRequest& request,
                                                               const AttendResult& result);

}  // namespace attention
