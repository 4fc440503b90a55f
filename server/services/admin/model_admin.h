// The calls that list, load, unload, reload and verify the models of the server's folder.
#pragma once

#include "server/models/model_loader.h"
#include "server/services/calls/native_calls.h"
#include "server/services/calls/typed_call.h"

namespace attention {

/// Answers these calls by a ModelLoader. All but ListModelStates need the right of an
/// administrator.
class ModelAdmin {
 public:
  /// The parts that the calls use; all outlive this.
  struct Dependencies {
    AttentionAsyncService& service;
    /// Null: there is no folder of models.
    ModelLoader* loader;
    const Access& access;
    RequestObserver& observer;
    Gate& admission;
    Gate& live_calls;
    ReceiveWatch& receiving;
  };

  explicit ModelAdmin(const Dependencies& dependencies);

  /// Posts the first calls. REQUIRES: the server has started, and `queue` is one of its queues.
  /// Called once.
  void Start(grpc::ServerCompletionQueue* queue);

 private:
  template <typename Request, typename Reply>
  using Call = TypedCall<AttentionAsyncService, Request, Reply>;
  using ListCall = Call<v1::ListModelStatesRequest, v1::ModelStates>;
  using LoadCall = Call<v1::LoadModelRequest, v1::ModelStates>;
  using UnloadCall = Call<v1::UnloadModelRequest, v1::ModelStates>;
  using ReloadCall = Call<v1::ReloadModelsRequest, v1::ModelStates>;
  using VerifyCall = Call<v1::VerifyModelRequest, v1::VerifyModelResponse>;

  ListCall::Method list_;
  LoadCall::Method load_;
  UnloadCall::Method unload_;
  ReloadCall::Method reload_;
  VerifyCall::Method verify_;
};

}  // namespace attention
