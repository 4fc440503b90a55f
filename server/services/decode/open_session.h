// Checks a request to open a session.
#pragma once

#include "absl/status/statusor.h"
#include "core/models/model_repository.h"
#include "proto/attention/v1/attention.pb.h"
#include "server/sessions/session.h"

namespace attention {

/// Plans a session. INVALID_ARGUMENT names the field of `open` that is wrong, what was expected and
/// what was found; errors of FindModel.
absl::StatusOr<SessionPlan> PlanSession(const v1::OpenSession& open, const ModelRepository& models,
                                        const std::shared_ptr<KvMemory>& memory);

}  // namespace attention
