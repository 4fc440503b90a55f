// What a request takes from the prefix cache, and what it adds.
#pragma once

#include <vector>

#include "server/scheduling/request_class.h"
#include "server/services/plan/attend_plan.h"
#include "server/sessions/session_table.h"

namespace attention {

/// Takes from the prefix cache what it has of the plan's sequences, and plans to add the rest after
/// the computation. Does nothing for requests whose rows depend on more than the ids of a causal
/// model's stack, or whose cached keys would have other bits: layers, hidden states, weights, token
/// types, a later step of a session, rotations that depend on the length of the sequence, and bf16
/// layers without a session. The caches of a session's step stay in the plan, for the session to
/// set. Thread-safe.
void TakePrefixes(SessionTable& table, const RequestClass& request_class, AttendPlan& plan);

/// Reserves room for `tokens` more tokens in each cache, if necessary by evicting prefixes of the
/// account. Returns false, and reserves nothing, when there is none.
bool ReserveByEviction(SessionTable& table, const std::string& account,
                       std::vector<KvCache>& caches, int64_t tokens);

}  // namespace attention
