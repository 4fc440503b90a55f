// inference.GRPCInferenceService on a completion queue of ours.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "server/models/model_loader.h"
#include "server/observability/health.h"
#include "server/services/open_inference/infer_stream_call.h"

namespace attention {

class OpenInferenceService {
 public:
  /// What the service works with; all outlive it.
  struct Dependencies {
    const ModelRepository& models;
    Executor& executor;
    /// Null: no folder of models is served.
    ModelLoader* loader;
    RequestObserver& observer;
    HealthRegistry& health;
    Gate& admission;
    Gate& live_calls;
  };
  struct Settings {
    int64_t max_message_bytes = 0;
    bool allow_shared_memory = false;
  };

  OpenInferenceService(const Dependencies& dependencies, const Settings& settings);

  /// To register with a server's builder. Outlives the server.
  grpc::Service& grpc_service() { return service_; }

  /// Posts the first calls. REQUIRES: the server has started, `queue` is one of its own. Called
  /// once.
  void Start(grpc::ServerCompletionQueue* queue);

 private:
  using Service = OpenInferenceAsyncService;
  template <typename Base, typename Request, typename Reply>
  using RequestFunction = void (Base::*)(grpc::ServerContext*, Request*,
                                         grpc::ServerAsyncResponseWriter<Reply>*,
                                         grpc::CompletionQueue*, grpc::ServerCompletionQueue*,
                                         void*);

  /// Adds a method that is answered at once.
  template <typename Base, typename Request, typename Reply, typename Answer>
  void Add(RequestFunction<Base, Request, Reply> request, Answer answer);
  void AddHealthMethods();
  void AddModelMethods();
  void AddStatistics();
  void AddRepositoryMethods();
  /// Load and Unload, which the loader answers when it is done.
  template <typename Base, typename Request, typename Reply>
  void AddChange(RequestFunction<Base, Request, Reply> request,
                 void (ModelLoader::*operation)(const ModelRequest&, ModelLoader::Done));
  void AddSharedMemoryMethods();

  std::vector<InferTarget> Served() const;

  const Dependencies dependencies_;
  Service service_;
  SharedMemory shared_memory_;
  const bool allows_shared_memory_;
  InferEnvironment infer_;
  /// Each begins to serve a method.
  std::vector<std::function<void(grpc::ServerCompletionQueue* queue)>> starters_;
};

}  // namespace attention
