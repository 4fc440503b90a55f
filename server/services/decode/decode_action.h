// An action on a session.
#pragma once

#include <cstdint>
#include <memory>

#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/envelope.h"
#include "server/observability/requests.h"
#include "server/scheduling/fair_budget.h"
#include "server/scheduling/request_class.h"
#include "server/security/caller.h"
#include "server/sessions/session.h"

namespace attention {

/// An action and its state.
struct DecodeAction {
  Received<v1::DecodeRequest> request;
  RequestRecord record;
  /// The tokens that a step adds to its sequence.
  int64_t tokens = 0;
  /// The caller, with its rights at the arrival of the action.
  Caller caller = {};
  RequestClass request_class = {};
  /// The session; null before `open`.
  std::shared_ptr<const Session> session = nullptr;
  /// Held while the action waits for the action before it on its sequence.
  std::unique_ptr<FairBudget::Part> waiting_bytes = nullptr;
};

}  // namespace attention
