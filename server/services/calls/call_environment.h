// What the calls of a listener use.
#pragma once

#include <grpcpp/completion_queue.h>

#include "core/models/model_repository.h"
#include "server/health.h"
#include "server/models/model_loader.h"
#include "server/observability/requests.h"
#include "server/scheduling/executor.h"
#include "server/scheduling/gate.h"
#include "server/security/access.h"
#include "server/services/calls/idle_watch.h"
#include "server/services/calls/open_streams.h"
#include "server/services/calls/receive_watch.h"
#include "server/services/plan/plan_request.h"
#include "server/sessions/session_table.h"

namespace attention {

/// The parts of the server that calls use; they outlive the calls.
struct ServerParts {
  const ModelRepository& models;
  Executor& executor;
  /// Null: there is no folder of models.
  ModelLoader* loader;
  RequestObserver& observer;
  /// The sessions, with the prefix cache.
  SessionTable& sessions;
  HealthRegistry& health;
  /// The open calls that need no token, of all listeners.
  OpenStreams& open_streams;
  /// Watches requests while they are received, and small answers while they are sent.
  ReceiveWatch& receiving;
  /// Ends idle streams.
  IdleWatch& idle;
  /// The gate of running requests; closed when the server drains.
  Gate& admission;
  /// Counts all call objects.
  Gate& live_calls;
};

/// The environment of the calls of a listener; outlives them.
struct CallEnvironment : ServerParts {
  /// The rights of callers.
  const Access& access;
  /// Set before the first call is posted.
  grpc::ServerCompletionQueue* queue = nullptr;
  /// The limits of calls that compute, which their service sets.
  ReplyLimit unary_limit = {};
  ReplyLimit stream_limit = {};
};

}  // namespace attention
