// inference.GRPCInferenceService on a completion queue of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "server/services/calls/typed_call.h"
#include "server/services/open_inference/infer_stream_call.h"

namespace attention {

class OpenInferenceService {
 public:
  /// The environment and the shared memory outlive the service, which sets the limit of its calls.
  /// Without `shared_memory` it is disabled.
  OpenInferenceService(const CallEnvironment& calls, SharedMemory* shared_memory,
                       int64_t max_message_bytes);

  /// Returns the service to register with a server's builder. This object outlives the server.
  grpc::Service& grpc_service() { return service_; }

  /// Posts the first calls. REQUIRES: the server has started, and the environment's queue is one of
  /// its queues. Called once.
  void Start();

 private:
  using Service = OpenInferenceAsyncService;

  void AddHealthMethods();
  void AddModelMethods();
  void AddStatistics();
  void AddRepositoryMethods();
  /// Adds Load or Unload, which the loader answers when it is done.
  template <typename Request, typename Reply>
  void AddChange(const char* name,
                 void (ModelLoader::*operation)(const ModelRequest&, ModelLoader::Done));
  void AddSharedMemoryMethods();
  /// Adds the methods that clients call before they begin. There is no CUDA memory.
  void AddCudaMemoryMethods();

  /// Returns the models that the caller may use.
  std::vector<InferTarget> Served(const Caller& caller) const;
  std::vector<ModelState> States(const Caller& caller) const;
  absl::StatusOr<InferTarget> Find(const std::string& name, const std::string& version,
                                   const Caller& caller) const;

  const CallEnvironment& calls_;
  /// Null: disabled.
  SharedMemory* const shared_memory_;
  Service service_;
  InferEnvironment infer_;
  TypedMethods<Service> methods_;
};

}  // namespace attention
