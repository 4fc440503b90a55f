// Checks a request to open a session.
#pragma once

#include "absl/status/statusor.h"
#include "core/models/model_repository.h"
#include "proto/attention/v1/attention.pb.h"
#include "server/sessions/session.h"

namespace attention {

/// The memory of a session's caches, and the tokens of a page of those that a whole stack has.
struct SessionMemory {
  std::shared_ptr<KvMemory> memory;
  int64_t page_tokens = kDefaultPageTokens;
};

/// Plans a session. INVALID_ARGUMENT names the field of `open` that is wrong, what was expected and
/// what was found; errors of FindModel.
absl::StatusOr<SessionPlan> PlanSession(const v1::OpenSession& open, const ModelRepository& models,
                                        const SessionMemory& memory);

}  // namespace attention
