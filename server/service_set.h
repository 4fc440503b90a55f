// The services of one listener.
#pragma once

#include <memory>
#include <optional>

#include "server/listener.h"
#include "server/security/access.h"
#include "server/services/admin/health_service.h"
#include "server/services/admin/reflection_service.h"
#include "server/services/attention_service.h"
#include "server/services/calls/call_environment.h"
#include "server/services/open_inference/open_inference_service.h"

namespace attention {

class ServiceSet {
 public:
  /// What all sets share; it outlives them. Without `shared_memory` it is disabled.
  struct Shared {
    ServerParts parts;
    SharedMemory* shared_memory;
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
  Access access_;
  CallEnvironment calls_;
  AttentionService attention_;
  OpenInferenceService open_inference_;
  HealthService health_;
  /// Empty: reflection is not served.
  std::optional<ReflectionService> reflection_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace attention
