// The prefixes that a request takes from the prefix cache, and those that it adds.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "server/scheduling/request_class.h"
#include "server/services/plan/attend_plan.h"
#include "server/services/plan/plan_terms.h"
#include "server/sessions/session_table.h"

namespace attention {

/// Finds the prefixes of the plan's sequences that the prefix cache has, holds them there
/// (PrefixHold), and plans to add the rest after the computation. Does nothing for requests whose
/// rows depend on more than the ids of a causal model's stack, or whose cached keys would have
/// other bits: layers, hidden states, weights, token types, a later step of a session, rotations
/// that depend on the length of the sequence, and bf16 layers without a session. Only a session's
/// step gets its caches now, which stay in the plan for the session to set; the others get theirs
/// when they run (TakePages). Errors of the terms. Thread-safe.
absl::Status PlanPrefixes(SessionTable& table, const RequestClass& request_class,
                          const PlanTerms& terms, AttendPlan& plan);

/// Takes the pages that the sequences of a plan hold, with room for their other tokens. Copies
/// nothing. Returns false when there is no room; then the plan may have pages, which
/// ForgoPrefixes gives back.
bool TakePages(AttendPlan& plan);
/// Gives back what the plan has taken: it then takes nothing from the prefix cache. Does not throw.
void ForgoPrefixes(AttendPlan& plan);

}  // namespace attention
