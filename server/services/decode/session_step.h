// What a client asks of an open session, checked.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/services/plan/plan_request.h"
#include "server/sessions/session.h"

namespace attention {

/// A step and the message that its payloads lie in.
struct ReceivedStep {
  const v1::DecodeStep& step;
  const std::shared_ptr<const ReceivedBytes>& bytes;
};

/// How large its answer may be, and on what terms it is planned.
struct StepTerms {
  ReplyLimit limit;
  PlanTerms planning;
};

/// The step as a request that follows what the sequence has. INVALID_ARGUMENT names the field that
/// is wrong, what was expected and what was found; other errors are PlanStep's.
absl::StatusOr<AttendPlan> PlanSessionStep(const ReceivedStep& received, const SessionPlan& session,
                                           SessionSequence& sequence, const StepTerms& terms);

/// INVALID_ARGUMENT for a sequence whose rotations are not those of a shorter one.
absl::Status CheckSessionTruncation(const SessionPlan& session, int64_t length, int64_t new_length);

}  // namespace attention
