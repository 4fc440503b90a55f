// Server reflection, v1 and v1alpha, as calls on a completion queue. (The library's service is
// synchronous: each open stream would hold a thread.)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "proto/grpc/reflection/v1/reflection.grpc.pb.h"
#include "proto/grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/services/calls/call_environment.h"
#include "server/services/calls/headers_first.h"

namespace attention {

/// The reflection service of one listener.
class ReflectionService {
 public:
  /// `services` are the full names of the other services of the listener. The environment outlives
  /// this. Of the rights of callers reflection needs none.
  ReflectionService(const CallEnvironment& calls, std::vector<std::string> services);

  /// The services to register with a server's builder. They outlive the server.
  std::vector<grpc::Service*> grpc_services() { return {&v1_, &v1alpha_}; }

  /// Posts the first calls. REQUIRES: the server has started, and the environment's queue is one of
  /// its queues. Called once.
  void Start();

 private:
  const CallEnvironment& calls_;
  std::vector<std::string> services_;
  HeadersFirst<grpc::reflection::v1::ServerReflection> v1_;
  HeadersFirst<grpc::reflection::v1alpha::ServerReflection> v1alpha_;
};

}  // namespace attention
