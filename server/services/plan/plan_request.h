// A request as its plan: everything that shapes alone decide.
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

/// The largest reply that may be made, and the flag that says so.
struct ReplyLimit {
  int64_t max_bytes = 0;
  std::string flag;
};

/// INVALID_ARGUMENT names the first field that is wrong, what was expected and what was found;
/// NOT_FOUND the model or version; RESOURCE_EXHAUSTED a reply past `limit`, or more than kMaxTokens
/// rows, kMaxSequences sequences or kMaxScoreTables tables; what `terms` say.
absl::StatusOr<AttendPlan> PlanAttend(const Received<v1::AttendRequest>& request,
                                      const ModelRepository& models, const ReplyLimit& limit,
                                      const PlanTerms& terms = {});

/// What a step runs, and what it follows.
struct StepTarget {
  /// Null for query_key_value.
  std::shared_ptr<const Model> model;
  std::vector<KvCache>* caches = nullptr;
  int64_t cached_len = 0;
};

/// A step of a session as a request of one sequence, whose `model` is a name for errors only. As
/// PlanAttend, and INVALID_ARGUMENT for more than one sequence, or lengths, offsets or memory.
absl::StatusOr<AttendPlan> PlanStep(const Received<v1::AttendRequest>& request,
                                    const StepTarget& target, const ReplyLimit& limit,
                                    const PlanTerms& terms = {});

}  // namespace attention
