// An action on a session.
#pragma once

#include <memory>

#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/envelope.h"
#include "server/observability/requests.h"
#include "server/sessions/session.h"

namespace attention {

/// An action and what is known of it so far.
struct DecodeAction {
  Received<v1::DecodeRequest> request;
  RequestRecord record;
  /// Once it has one.
  std::shared_ptr<const Session> session = nullptr;
};

}  // namespace attention
