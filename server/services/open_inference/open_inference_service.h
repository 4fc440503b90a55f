// inference.GRPCInferenceService on a completion queue of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "server/health.h"
#include "server/models/model_loader.h"
#include "server/services/calls/typed_call.h"
#include "server/services/open_inference/infer_stream_call.h"

namespace attention {

class OpenInferenceService {
 public:
  /// The parts that the service uses; all outlive it.
  struct Dependencies {
    /// The environment of the calls, without the queue and the limits, which the service adds.
    CallEnvironment calls;
    /// Null: there is no folder of models.
    ModelLoader* loader;
    HealthRegistry& health;
    /// Null: shared memory is disabled.
    SharedMemory* shared_memory;
  };

  OpenInferenceService(const Dependencies& dependencies, int64_t max_message_bytes);

  /// Returns the service to register with a server's builder. This object outlives the server.
  grpc::Service& grpc_service() { return service_; }

  /// Posts the first calls. REQUIRES: the server has started, `queue` is one of its queues,
  /// and it was not called before.
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
  /// Adds Load or Unload, which the loader answers when it is done.
  template <typename Request, typename Reply>
  void AddChange(const char* name,
                 void (ModelLoader::*operation)(const ModelRequest&, ModelLoader::Done));
  template <typename Call>
  void Begin(typename Call::Method method, int posted_calls);
  void AddSharedMemoryMethods();
  /// Adds the methods that clients call before they begin. There is no CUDA memory.
  void AddCudaMemoryMethods();

  /// Returns the models that the caller may use.
  std::vector<InferTarget> Served(const Caller& caller) const;
  std::vector<ModelState> States(const Caller& caller) const;
  absl::StatusOr<InferTarget> Find(const std::string& name, const std::string& version,
                                   const Caller& caller) const;

  const Dependencies dependencies_;
  Service service_;
  InferEnvironment infer_;
  /// Functions that begin to serve a method.
  std::vector<std::function<void(grpc::ServerCompletionQueue* queue)>> starters_;
};

}  // namespace attention
