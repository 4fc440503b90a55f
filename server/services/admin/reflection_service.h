// Server reflection, v1 and v1alpha, as calls on a completion queue. (The library's service is
// synchronous: each open stream would hold a thread.)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "proto/grpc/reflection/v1/reflection.grpc.pb.h"
#include "proto/grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/observability/requests.h"
#include "server/scheduling/gate.h"
#include "server/services/calls/headers_first.h"
#include "server/services/calls/open_streams.h"

namespace attention {

/// The reflection service of one listener.
class ReflectionService {
 public:
  /// The parts that the service uses; all outlive it.
  struct Dependencies {
    RequestObserver& observer;
    OpenStreams& open_streams;
    Gate& live_calls;
    /// The rights of callers, of which reflection needs none.
    const Access& access;
  };

  /// `services` are the full names of the other services of the listener.
  ReflectionService(const Dependencies& dependencies, std::vector<std::string> services);

  /// The services to register with a server's builder. They outlive the server.
  std::vector<grpc::Service*> grpc_services() { return {&v1_, &v1alpha_}; }

  /// Posts the first calls. REQUIRES: the server has started, and `queue` is one of its queues.
  /// Called once.
  void Start(grpc::ServerCompletionQueue* queue);

 private:
  const Dependencies dependencies_;
  std::vector<std::string> services_;
  HeadersFirst<grpc::reflection::v1::ServerReflection> v1_;
  HeadersFirst<grpc::reflection::v1alpha::ServerReflection> v1alpha_;
};

}  // namespace attention
