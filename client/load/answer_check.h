// Checks answers against the double-precision reference.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/attention_client.h"
#include "client/load/compare_answer.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// Recomputes `request` with core/reference: query_key_value from its tensors alone, everything
/// else with the weights that `model` (null for query_key_value) was seeded with. Costs seconds for
/// thousands of tokens. FAILED_PRECONDITION when the model has no seed; INVALID_ARGUMENT when
/// `result` does not have the shape of an answer to `request`.
absl::StatusOr<AnswerCheck> CheckAnswer(const v1::Model* model, const AttendRequest& request,
                                        const AttendResult& result);

/// The same with the model as the server describes it; absent if its weights cannot be reproduced.
absl::StatusOr<std::optional<AnswerCheck>> CheckIfReproducible(AttentionClient& client,
                                                               const AttendRequest& request,
                                                               const AttendResult& result);

}  // namespace attention
