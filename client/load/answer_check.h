// Does an answer agree with the double-precision reference?
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/attention_client.h"
#include "core/tensor/dtype.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

struct AnswerCheck {
  /// |actual - expected| / |expected| over the whole output, padding included.
  double relative_l2 = 0.0;
  double tolerance = 0.0;
  /// Of all sequences, when the answer has them.
  std::optional<double> weights_relative_l2 = std::nullopt;
  std::optional<double> log_sum_exp_relative_l2 = std::nullopt;
  std::optional<double> top_weights_relative_l2 = std::nullopt;

  bool agreed() const {
    return relative_l2 <= tolerance && weights_relative_l2.value_or(0.0) <= tolerance &&
           log_sum_exp_relative_l2.value_or(0.0) <= tolerance &&
           top_weights_relative_l2.value_or(0.0) <= tolerance;
  }
};

/// Recomputes `request` with core/reference: query_key_value from its tensors alone, everything
/// else with the weights that `model` (null for query_key_value) was seeded with. Costs seconds for
/// thousands of tokens. FAILED_PRECONDITION when the model has no seed; INVALID_ARGUMENT when
/// `result` does not have the shape of an answer to `request`.
absl::StatusOr<AnswerCheck> CheckAnswer(const v1::Model* model, const AttendRequest& request,
                                        const AttendResult& result);

/// The same with the model as the server describes it; absent when its weights cannot be
/// reproduced.
absl::StatusOr<std::optional<AnswerCheck>> CheckIfReproducible(AttentionClient& client,
                                                               const AttendRequest& request,
                                                               const AttendResult& result);

}  // namespace attention
