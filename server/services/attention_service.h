// attention.v1.AttentionService on a completion queue of its own.
#pragma once

#include "server/services/calls/native_calls.h"
#include "server/services/calls/typed_call.h"
#include "server/services/decode/decode_call.h"

namespace attention {

class AttentionService {
 public:
  /// The environment outlives the service, which sets the limits of its calls.
  AttentionService(const CallEnvironment& calls, const v1::ModelLimits& limits);

  /// Returns the service to register with a server's builder. This object outlives the server.
  grpc::Service& grpc_service() { return service_; }

  /// Posts the first calls. REQUIRES: the server has started, and the environment's queue is one of
  /// its queues. Called once.
  void Start();

 private:
  void AddTypedMethods(const v1::ModelLimits& limits);

  const CallEnvironment& calls_;
  AttentionAsyncService service_;
  NativeEnvironment native_;
  TypedMethods<AttentionAsyncService> methods_;
};

}  // namespace attention
