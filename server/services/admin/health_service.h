// grpc.health.v1 as calls on a completion queue. (The library's service uses callbacks, whose
// threads are slow to wake up when idle.)
#pragma once

#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "server/services/calls/headers_first.h"
#include "server/services/calls/typed_call.h"

namespace attention {

/// Answers Check and Watch from a HealthRegistry.
class HealthService {
 public:
  /// The environment outlives the service. Of the rights of callers health needs none.
  explicit HealthService(const CallEnvironment& calls);

  /// The service to register with a server's builder. Outlives the server.
  grpc::Service& grpc_service() { return service_; }

  /// Posts the first calls. REQUIRES: the server has started, and the environment's queue is one of
  /// its queues. Called once.
  void Start();

 private:
  using AsyncHealth = HeadersFirst<grpc::health::v1::Health>;

  const CallEnvironment& calls_;
  AsyncHealth service_;
  TypedMethods<AsyncHealth> methods_;
};

}  // namespace attention
