// Makes the plan of a request, with everything that follows from shapes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/models/model_repository.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/envelope.h"
#include "server/services/plan/attend_plan.h"
#include "server/services/plan/plan_terms.h"

namespace attention {

/// The maximum size of a reply, and the flag that sets it.
struct ReplyLimit {
  int64_t max_bytes = 0;
  std::string flag;

  /// RESOURCE_EXHAUSTED for a reply that is larger.
  absl::Status Check(int64_t reply_bytes) const;
};

/// Returns the model of the request; null for attention without a model. NOT_FOUND, or UNAVAILABLE
/// while it is being loaded.
absl::StatusOr<std::shared_ptr<const Model>> ModelOf(const v1::AttendRequest& request,
                                                     const ModelRepository& models);

/// Plans a request for the model of ModelOf. INVALID_ARGUMENT names the first field that is wrong,
/// what was expected and what was found; RESOURCE_EXHAUSTED for a reply beyond `limit`, or more
/// than kMaxTokens query rows or keys, kMaxSequences sequences or kMaxScoreTables tables; the
/// errors of `terms`.
absl::StatusOr<AttendPlan> PlanAttendOn(std::shared_ptr<const Model> model,
                                        const Received<v1::AttendRequest>& request,
                                        const ReplyLimit& limit, const PlanTerms& terms = {});

/// The model of a step, and the tokens that it follows.
struct StepTarget {
  /// Null for query_key_value.
  std::shared_ptr<const Model> model;
  std::vector<KvCache>* caches = nullptr;
  int64_t cached_len = 0;
};

/// Plans a step of a session as a request of one sequence, whose `model` is used in errors only.
/// Errors as PlanAttendOn's, and INVALID_ARGUMENT for more than one sequence or query offset, or
/// for lengths or memory.
absl::StatusOr<AttendPlan> PlanStep(const Received<v1::AttendRequest>& request,
                                    const StepTarget& target, const ReplyLimit& limit,
                                    const PlanTerms& terms = {});

}  // namespace attention
