// grpc.health.v1 as calls on a completion queue. (The library's service uses callbacks, whose
// threads are slow to wake up when idle.)
#pragma once

#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "server/health.h"
#include "server/scheduling/gate.h"
#include "server/services/calls/headers_first.h"
#include "server/services/calls/open_streams.h"
#include "server/services/calls/typed_call.h"

namespace attention {

/// Answers Check and Watch from a HealthRegistry.
class HealthService {
 public:
  /// The parts that the service uses; all outlive it.
  struct Dependencies {
    HealthRegistry& registry;
    RequestObserver& observer;
    OpenStreams& open_streams;
    Gate& live_calls;
    ReceiveWatch& receiving;
    /// The rights of callers, of which health needs none.
    const Access& access;
  };

  explicit HealthService(const Dependencies& dependencies);

  /// The service to register with a server's builder. Outlives the server.
  grpc::Service& grpc_service() { return service_; }

  /// Posts the first calls. REQUIRES: the server has started, and `queue` is one of its queues.
  /// Called once.
  void Start(grpc::ServerCompletionQueue* queue);

 private:
  using AsyncHealth = HeadersFirst<grpc::health::v1::Health>;
  using CheckCall = TypedCall<AsyncHealth, grpc::health::v1::HealthCheckRequest,
                              grpc::health::v1::HealthCheckResponse>;

  AsyncHealth service_;
  const Dependencies dependencies_;
  CheckCall::Method check_;
};

}  // namespace attention
