// Checks the actions on an open session.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/services/plan/plan_request.h"
#include "server/sessions/session.h"

namespace attention {

/// A step and the message that holds its payloads.
struct ReceivedStep {
  const v1::DecodeStep& step;
  const std::shared_ptr<const ReceivedBytes>& bytes;
};

/// The maximum size of a step's answer, and the terms on which the step is planned.
struct StepTerms {
  ReplyLimit limit;
  PlanTerms planning;
};

/// Plans the step as a request that follows the tokens of the sequence. INVALID_ARGUMENT names the
/// field that is wrong, what was expected and what was found; other errors are PlanStep's.
absl::StatusOr<AttendPlan> PlanSessionStep(const ReceivedStep& received, const SessionPlan& session,
                                           SessionSequence& sequence, const StepTerms& terms);

/// Checks a truncation. INVALID_ARGUMENT for a sequence whose rotations differ from those of a
/// shorter one.
absl::Status CheckSessionTruncation(const SessionPlan& session, int64_t length, int64_t new_length);

}  // namespace attention
