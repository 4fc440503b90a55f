// attention.v1.AttentionService on a completion queue of its own.
#pragma once

#include "server/services/admin/model_admin.h"
#include "server/services/calls/native_calls.h"
#include "server/services/calls/typed_call.h"
#include "server/services/decode/decode_call.h"

namespace attention {

class AttentionService {
 public:
  /// The parts that the service uses; all outlive it.
  struct Dependencies {
    /// The environment of the calls, without the queue and the limits, which the service adds.
    CallEnvironment calls;
    /// Null: there is no folder of models.
    ModelLoader* loader;
  };

  AttentionService(const Dependencies& dependencies, const v1::ModelLimits& limits);

  /// Returns the service to register with a server's builder. This object outlives the server.
  grpc::Service& grpc_service() { return service_; }

  /// Posts the first calls. REQUIRES: the server has started, `queue` is one of its queues,
  /// and it was not called before.
  void Start(grpc::ServerCompletionQueue* queue);

 private:
  template <typename Request, typename Reply>
  using Call = TypedCall<AttentionAsyncService, Request, Reply>;
  using ListModelsCall = Call<v1::ListModelsRequest, v1::ListModelsResponse>;
  using GetModelCall = Call<v1::GetModelRequest, v1::Model>;
  using GetStatisticsCall = Call<v1::GetStatisticsRequest, v1::ServerStatistics>;
  using SetLoggingCall = Call<v1::SetLoggingRequest, v1::Logging>;

  AttentionAsyncService service_;
  NativeEnvironment native_;
  DecodeEnvironment decode_;
  ListModelsCall::Method list_models_;
  GetModelCall::Method get_model_;
  GetStatisticsCall::Method get_statistics_;
  SetLoggingCall::Method set_logging_;
  ModelAdmin model_admin_;
};

}  // namespace attention
