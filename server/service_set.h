// The services of one listener.
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
  /// The parts that all sets share; they outlive the sets.
  struct Shared {
    const ModelRepository& models;
    Executor& executor;
    /// Null: there is no folder of models.
    ModelLoader* loader;
    RequestObserver& observer;
    SessionTable& sessions;
    HealthRegistry& health;
    /// Null: shared memory is disabled.
    SharedMemory* shared_memory;
    OpenStreams& open_streams;
    ReceiveWatch& receiving;
    IdleWatch& idle;
    Gate& admission;
    Gate& live_calls;
  };

  ServiceSet(const Shared& shared, const Access::Rules& rules, const v1::ModelLimits& limits);

  /// Opens the listener. Returns the errors of Listener::Open.
  absl::Status Open(const ListenerOptions& options);
  /// Starts to serve. REQUIRES: Open.
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
  /// Empty: reflection is not served.
  std::optional<ReflectionService> reflection_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace attention
