// Everything that is served, to the callers of one listener.
#pragma once

#include <memory>
#include <optional>

#include "server/listener.h"
#include "server/security/access.h"
#include "server/services/admin/health_service.h"
#include "server/services/admin/reflection_service.h"
#include "server/services/attention_service.h"
#include "server/services/calls/open_streams.h"
#include "server/services/open_inference/open_inference_service.h"

namespace attention {

class ServiceSet {
 public:
  /// What all sets share; outlives them.
  struct Shared {
    const ModelRepository& models;
    Executor& executor;
    /// Null: no folder of models is served.
    ModelLoader* loader;
    RequestObserver& observer;
    SessionTable& sessions;
    HealthRegistry& health;
    /// Null: switched off.
    SharedMemory* shared_memory;
    OpenStreams& open_streams;
    ReceiveWatch& receiving;
    Gate& admission;
    Gate& live_calls;
  };

  ServiceSet(const Shared& shared, const Access::Rules& rules, const v1::ModelLimits& limits);

  /// Listener::Open's errors.
  absl::Status Open(const ListenerOptions& options);
  /// Begins to serve. REQUIRES: Open.
  void Start(int num_threads);

  Access& access() { return access_; }
  /// Null before Open.
  std::unique_ptr<Listener>& listener() { return listener_; }

 private:
  const Shared shared_;
  Access access_;
  AttentionService attention_;
  OpenInferenceService open_inference_;
  HealthService health_;
  /// None: reflection is not served.
  std::optional<ReflectionService> reflection_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace attention
