// inference.GRPCInferenceService on a completion queue of ours.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "server/models/model_loader.h"
#include "server/observability/health.h"
#include "server/services/calls/typed_call.h"
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
    ReceiveWatch& receiving;
    /// Who may call.
    const Access& access;
    /// Null: switched off.
    SharedMemory* shared_memory;
  };

  OpenInferenceService(const Dependencies& dependencies, int64_t max_message_bytes);

  /// To register with a server's builder. Outlives the server.
  grpc::Service& grpc_service() { return service_; }

  /// Posts the first calls. REQUIRES: the server has started, `queue` is one of its own. Called
  /// once.
  void Start(grpc::ServerCompletionQueue* queue);

 private:
  using Service = OpenInferenceAsyncService;

  /// Adds a method that is answered at once.
  template <typename Request, typename Reply, typename Answer>
  void Add(const char* name, Right right, Answer answer);
  void AddHealthMethods();
  void AddModelMethods();
  void AddStatistics();
  void AddRepositoryMethods();
  /// Load and Unload, which the loader answers when it is done.
  template <typename Request, typename Reply>
  void AddChange(const char* name,
                 void (ModelLoader::*operation)(const ModelRequest&, ModelLoader::Done));
  template <typename Call>
  void Begin(typename Call::Method method, int posted_calls);
  void AddSharedMemoryMethods();
  /// What clients ask before they begin; there is no CUDA memory.
  void AddCudaMemoryMethods();

  /// That the caller may use.
  std::vector<InferTarget> Served(const Caller& caller) const;
  std::vector<ModelState> States(const Caller& caller) const;
  absl::StatusOr<InferTarget> Find(const std::string& name, const std::string& version,
                                   const Caller& caller) const;

  const Dependencies dependencies_;
  Service service_;
  InferEnvironment infer_;
  /// Each begins to serve a method.
  std::vector<std::function<void(grpc::ServerCompletionQueue* queue)>> starters_;
};

}  // namespace attention
