#include "server/services/open_inference/open_inference_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/services/calls/typed_call.h"
#include "server/services/open_inference/describe_model.h"
#include "server/services/open_inference/repository_request.h"

namespace attention {
namespace {

// The number of calls that wait for each method, as in AttentionService.
constexpr int kPostedInferCalls = 16;
constexpr int kPostedSmallCalls = 4;

InferEnvironment MakeEnvironment(OpenInferenceAsyncService& service, const CallEnvironment& calls,
                                 const SharedMemory* shared_memory, const ReplyLimit& limit) {
  InferEnvironment infer = {.service = service, .calls = calls, .shared_memory = shared_memory};
  infer.calls.unary_limit = infer.calls.stream_limit = limit;
  return infer;
}

}  // namespace

OpenInferenceService::OpenInferenceService(const CallEnvironment& calls,
                                           SharedMemory* shared_memory, int64_t max_message_bytes)
    : calls_(calls),
      shared_memory_(shared_memory),
      infer_(MakeEnvironment(service_, calls, shared_memory,
                             {max_message_bytes, "--max-message-bytes"})),
      methods_(service_, calls, kPostedSmallCalls) {
  service_.Serve("ModelInfer");
  service_.Serve("ModelStreamInfer");
  AddHealthMethods();
  AddModelMethods();
  AddStatistics();
  AddRepositoryMethods();
  AddSharedMemoryMethods();
  AddCudaMemoryMethods();
}

void OpenInferenceService::Start() {
  infer_.calls.queue = calls_.queue;
  for (int i = 0; i < kPostedInferCalls; ++i) {
    InferCall::Post(infer_);
    InferStreamCall::Post(infer_);
  }
  methods_.Start();
}

template <typename Request, typename Reply>
void OpenInferenceService::AddChange(const char* name,
                                     void (ModelLoader::*operation)(const ModelRequest&,
                                                                    ModelLoader::Done)) {
  using Call = TypedCall<Service, Request, Reply>;
  const auto begin = [loader = calls_.loader, operation](const std::shared_ptr<Call>& call) {
    absl::Status status = CheckChange(call->request(), loader != nullptr);
    const std::string& model = ModelNameOf(call->request());
    if (status.ok()) {
      status = call->caller().CheckModel(model);
    }
    if (!status.ok()) {
      call->Finish(AboutModelOf(call->request(), status));
      return;
    }
    const ModelRequest change = {.name = model,
                                 .is_cancelled = [call] { return call->is_cancelled(); }};
    (loader->*operation)(change, [call](const absl::Status& done) {
      call->Finish(done.ok() ? absl::StatusOr<Reply>(Reply())
                             : AboutModelOf(call->request(), call->caller().HideOtherModels(done)));
    });
  };
  methods_.AddForAdmins<Call>(name, begin);
}

std::vector<InferTarget> OpenInferenceService::Served(const Caller& caller) const {
  std::vector<InferTarget> served;
  if (caller.MayUse(kWithoutModel)) {
    served.push_back({kWithoutModel, kWithoutModelVersion, nullptr});
  }
  for (std::shared_ptr<const Model>& model : calls_.models.List()) {
    const ModelInfo& info = model->info();
    if (caller.MayUse(info.name)) {
      served.push_back({info.name, info.version, std::move(model)});
    }
  }
  return served;
}

absl::StatusOr<InferTarget> OpenInferenceService::Find(const std::string& name,
                                                       const std::string& version,
                                                       const Caller& caller) const {
  RETURN_IF_ERROR(caller.CheckModel(name));
  absl::StatusOr<InferTarget> target =
      FindTarget(calls_.models, name, version, {"name", "version"});
  RETURN_IF_ERROR(caller.HideOtherModels(target.status()));
  return target;
}

void OpenInferenceService::AddHealthMethods() {
  methods_.Add<inference::ServerLiveRequest, inference::ServerLiveResponse>(
      "ServerLive", Right::kNone, [](const inference::ServerLiveRequest&) {
        inference::ServerLiveResponse response;
        response.set_live(true);
        return absl::StatusOr<inference::ServerLiveResponse>(response);
      });
  methods_.Add<inference::ServerReadyRequest, inference::ServerReadyResponse>(
      "ServerReady", Right::kNone, [this](const inference::ServerReadyRequest&) {
        inference::ServerReadyResponse response;
        response.set_ready(calls_.health.IsServing("").value_or(false));
        return absl::StatusOr<inference::ServerReadyResponse>(response);
      });
  methods_.Add<inference::ModelReadyRequest, inference::ModelReadyResponse>(
      "ModelReady", Right::kCall,
      [this](const inference::ModelReadyRequest& request, const Caller& caller) {
        inference::ModelReadyResponse response;
        const bool is_found = Find(request.name(), request.version(), caller).ok();
        if (is_found && calls_.admission.TryEnter()) {
          calls_.admission.Leave();
          response.set_ready(true);
        }
        return absl::StatusOr<inference::ModelReadyResponse>(response);
      });
  methods_.Add<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
      "ServerMetadata", Right::kCall,
      [this](const inference::ServerMetadataRequest&, const Caller& caller) {
        return absl::StatusOr<inference::ServerMetadataResponse>(
            DescribeServer({.repository = caller.has_admin_right && calls_.loader != nullptr,
                            .shared_memory = caller.has_admin_right && shared_memory_ != nullptr}));
      });
}

void OpenInferenceService::AddModelMethods() {
  methods_.Add<inference::ModelMetadataRequest, inference::ModelMetadataResponse>(
      "ModelMetadata", Right::kCall,
      [this](const inference::ModelMetadataRequest& request,
             const Caller& caller) -> absl::StatusOr<inference::ModelMetadataResponse> {
        ASSIGN_OR_RETURN(const InferTarget target, Find(request.name(), request.version(), caller));
        std::vector<std::string> versions;
        for (const InferTarget& served : Served(caller)) {
          if (served.name == target.name) {
            versions.push_back(absl::StrCat(served.version));
          }
        }
        return DescribeMetadata(target, versions);
      });
  methods_.Add<inference::ModelConfigRequest, inference::ModelConfigResponse>(
      "ModelConfig", Right::kCall,
      [this](const inference::ModelConfigRequest& request,
             const Caller& caller) -> absl::StatusOr<inference::ModelConfigResponse> {
        ASSIGN_OR_RETURN(const InferTarget target, Find(request.name(), request.version(), caller));
        inference::ModelConfigResponse response;
        *response.mutable_config() = DescribeConfig(target);
        return response;
      });
}

void OpenInferenceService::AddStatistics() {
  methods_.Add<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse>(
      "ModelStatistics", Right::kCall,
      [this](const inference::ModelStatisticsRequest& request,
             const Caller& caller) -> absl::StatusOr<inference::ModelStatisticsResponse> {
        std::string version = request.version();
        if (!request.name().empty()) {
          ASSIGN_OR_RETURN(const InferTarget target, Find(request.name(), version, caller));
          version = version.empty() ? "" : absl::StrCat(target.version);
        }
        inference::ModelStatisticsResponse response;
        const auto counts = calls_.observer.counter().by_model();
        for (const InferTarget& served : Served(caller)) {
          const bool is_named = request.name().empty() || request.name() == served.name;
          const bool is_versions = version.empty() || version == absl::StrCat(served.version);
          if (is_named && is_versions) {
            // Attention without a model is counted without a name, however it is asked for.
            const auto found = served.model == nullptr ? counts.find({"", 0})
                                                       : counts.find({served.name, served.version});
            *response.add_model_stats() =
                DescribeStatistics(served, found == counts.end() ? RequestCounts() : found->second);
          }
        }
        return response;
      });
}

std::vector<ModelState> OpenInferenceService::States(const Caller& caller) const {
  std::vector<ModelState> states;
  if (calls_.loader != nullptr) {
    states = calls_.loader->States();
    std::erase_if(states,
                  [&caller](const ModelState& state) { return !caller.MayUse(state.name); });
  }
  return states;
}

void OpenInferenceService::AddRepositoryMethods() {
  methods_.Add<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse>(
      "RepositoryIndex", Right::kCall,
      [this](const inference::RepositoryIndexRequest& request,
             const Caller& caller) -> absl::StatusOr<inference::RepositoryIndexResponse> {
        RETURN_IF_ERROR(CheckRepositoryName(request.repository_name()));
        inference::RepositoryIndexResponse response;
        for (auto& entry : DescribeIndex(Served(caller), States(caller), caller.has_admin_right)) {
          if (!request.ready() || entry.state() == "READY") {
            *response.add_models() = std::move(entry);
          }
        }
        return response;
      });
  AddChange<inference::RepositoryModelLoadRequest, inference::RepositoryModelLoadResponse>(
      "RepositoryModelLoad", &ModelLoader::Load);
  AddChange<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse>(
      "RepositoryModelUnload", &ModelLoader::Unload);
}

void OpenInferenceService::AddSharedMemoryMethods() {
  methods_
      .Add<inference::SystemSharedMemoryStatusRequest, inference::SystemSharedMemoryStatusResponse>(
          "SystemSharedMemoryStatus", Right::kAdmin,
          [this](const inference::SystemSharedMemoryStatusRequest& request, const Caller& caller)
              -> absl::StatusOr<inference::SystemSharedMemoryStatusResponse> {
            RETURN_IF_ERROR(CheckSharedMemory(shared_memory_, caller));
            ASSIGN_OR_RETURN(const std::vector<SharedRegionSpec> regions,
                             shared_memory_->List(request.name()));
            inference::SystemSharedMemoryStatusResponse response;
            for (const SharedRegionSpec& region : regions) {
              auto& wire = (*response.mutable_regions())[region.name];
              wire.set_name(region.name);
              wire.set_key(region.key);
              wire.set_offset(region.offset);
              wire.set_byte_size(region.byte_size);
            }
            return response;
          });
  methods_.Add<inference::SystemSharedMemoryRegisterRequest,
               inference::SystemSharedMemoryRegisterResponse>(
      "SystemSharedMemoryRegister", Right::kAdmin,
      [this](const inference::SystemSharedMemoryRegisterRequest& request, const Caller& caller)
          -> absl::StatusOr<inference::SystemSharedMemoryRegisterResponse> {
        RETURN_IF_ERROR(CheckSharedMemory(shared_memory_, caller));
        RETURN_IF_ERROR(shared_memory_->Register(
            {request.name(), request.key(), request.offset(), request.byte_size()}));
        return inference::SystemSharedMemoryRegisterResponse();
      });
  methods_.Add<inference::SystemSharedMemoryUnregisterRequest,
               inference::SystemSharedMemoryUnregisterResponse>(
      "SystemSharedMemoryUnregister", Right::kAdmin,
      [this](const inference::SystemSharedMemoryUnregisterRequest& request, const Caller& caller)
          -> absl::StatusOr<inference::SystemSharedMemoryUnregisterResponse> {
        RETURN_IF_ERROR(CheckSharedMemory(shared_memory_, caller));
        shared_memory_->Unregister(request.name());
        return inference::SystemSharedMemoryUnregisterResponse();
      });
}

void OpenInferenceService::AddCudaMemoryMethods() {
  methods_.Add<inference::CudaSharedMemoryStatusRequest, inference::CudaSharedMemoryStatusResponse>(
      "CudaSharedMemoryStatus", Right::kCall, DescribeCudaMemory);
  methods_.Add<inference::CudaSharedMemoryUnregisterRequest,
               inference::CudaSharedMemoryUnregisterResponse>(
      "CudaSharedMemoryUnregister", Right::kCall,
      [](const inference::CudaSharedMemoryUnregisterRequest&) {
        return absl::StatusOr<inference::CudaSharedMemoryUnregisterResponse>(
            inference::CudaSharedMemoryUnregisterResponse());
      });
}

}  // namespace attention
