#include "server/services/open_inference/open_inference_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/services/deferred_call.h"
#include "server/services/method_index.h"
#include "server/services/open_inference/describe_model.h"
#include "server/services/open_inference/repository_request.h"
#include "server/services/unary_call.h"

namespace attention {
namespace {

// Calls that wait for each method, as AttentionService has them.
constexpr int kPostedInferCalls = 16;
constexpr int kPostedCalls = 4;

constexpr char kServerName[] = "attend";
constexpr char kVersion[] = ATTEND_VERSION;

int MethodOf(const char* name) {
  return MethodIndex<inference::ModelInferRequest>("GRPCInferenceService", name);
}

inference::ServerMetadataResponse DescribeServer(bool has_shared_memory) {
  inference::ServerMetadataResponse metadata;
  metadata.set_name(kServerName);
  metadata.set_version(kVersion);
  for (const char* const extension :
       {"model_configuration", "model_repository", "parameters", "schedule_policy", "statistics"}) {
    metadata.add_extensions(extension);
  }
  if (has_shared_memory) {
    metadata.add_extensions("system_shared_memory");
  }
  return metadata;
}

InferEnvironment MakeEnvironment(OpenInferenceAsyncService& service,
                                 const OpenInferenceService::Dependencies& dependencies,
                                 const ReplyLimit& limit) {
  return {.service = service,
          .calls = {.queue = nullptr,
                    .models = dependencies.models,
                    .executor = dependencies.executor,
                    .admission = dependencies.admission,
                    .live_calls = dependencies.live_calls,
                    .observer = dependencies.observer,
                    .unary_limit = limit,
                    .stream_limit = limit}};
}

}  // namespace

OpenInferenceService::OpenInferenceService(const Dependencies& dependencies,
                                           const Settings& settings)
    : dependencies_(dependencies),
      service_({MethodOf("ModelInfer"), MethodOf("ModelStreamInfer")}),
      allows_shared_memory_(settings.allow_shared_memory),
      infer_(MakeEnvironment(service_, dependencies,
                             {settings.max_message_bytes, "--max-message-bytes"})) {
  infer_.shared_memory = allows_shared_memory_ ? &shared_memory_ : nullptr;
  AddHealthMethods();
  AddModelMethods();
  AddStatistics();
  AddRepositoryMethods();
  AddSharedMemoryMethods();
}

void OpenInferenceService::Start(grpc::ServerCompletionQueue* queue) {
  infer_.calls.queue = queue;
  for (int i = 0; i < kPostedInferCalls; ++i) {
    InferCall::Post(infer_);
    InferStreamCall::Post(infer_);
  }
  for (const auto& start : starters_) {
    start(queue);
  }
}

template <typename Base, typename Request, typename Reply, typename Answer>
void OpenInferenceService::Add(RequestFunction<Base, Request, Reply> request, Answer answer) {
  using Call = UnaryCall<Service, Request, Reply>;
  const auto method = std::make_shared<typename Call::Method>(typename Call::Method{
      service_, request, std::move(answer), nullptr, dependencies_.live_calls});
  starters_.push_back([method](grpc::ServerCompletionQueue* queue) {
    method->queue = queue;
    for (int i = 0; i < kPostedCalls; ++i) {
      Call::Post(*method);
    }
  });
}

template <typename Base, typename Request, typename Reply>
void OpenInferenceService::AddChange(RequestFunction<Base, Request, Reply> request,
                                     void (ModelLoader::*operation)(const ModelRequest&,
                                                                    ModelLoader::Done)) {
  using Call = DeferredCall<Service, Request, Reply>;
  const auto begin = [loader = dependencies_.loader, operation](const std::shared_ptr<Call>& call) {
    const absl::Status status = CheckChange(call->request(), loader != nullptr);
    if (!status.ok()) {
      call->Finish(status);
      return;
    }
    const ModelRequest change = {.name = call->request().model_name(),
                                 .is_cancelled = [call] { return call->is_cancelled(); }};
    (loader->*operation)(change, [call](const absl::Status& done) {
      call->Finish(done.ok() ? absl::StatusOr<Reply>(Reply()) : done);
    });
  };
  const auto method = std::make_shared<typename Call::Method>(typename Call::Method{
      service_, request, begin, nullptr, dependencies_.admission, dependencies_.live_calls});
  starters_.push_back([method](grpc::ServerCompletionQueue* queue) {
    method->queue = queue;
    Call::Post(*method);
  });
}

std::vector<InferTarget> OpenInferenceService::Served() const {
  std::vector<InferTarget> served = {{kBareAttention, kBareAttentionVersion, nullptr}};
  for (std::shared_ptr<const Model>& model : dependencies_.models.List()) {
    const ModelInfo& info = model->info();
    served.push_back({info.name, info.version, std::move(model)});
  }
  return served;
}

void OpenInferenceService::AddHealthMethods() {
  Add(&Service::RequestServerLive, [](const inference::ServerLiveRequest&) {
    inference::ServerLiveResponse response;
    response.set_live(true);
    return absl::StatusOr<inference::ServerLiveResponse>(response);
  });
  Add(&Service::RequestServerReady, [this](const inference::ServerReadyRequest&) {
    inference::ServerReadyResponse response;
    response.set_ready(dependencies_.health.IsServing("").value_or(false));
    return absl::StatusOr<inference::ServerReadyResponse>(response);
  });
  Add(&Service::RequestModelReady, [this](const inference::ModelReadyRequest& request) {
    inference::ModelReadyResponse response;
    const bool is_found = FindTarget(dependencies_.models, request.name(), request.version()).ok();
    if (is_found && dependencies_.admission.TryEnter()) {
      dependencies_.admission.Leave();
      response.set_ready(true);
    }
    return absl::StatusOr<inference::ModelReadyResponse>(response);
  });
  Add(&Service::RequestServerMetadata,
      [has_shared_memory = allows_shared_memory_](const inference::ServerMetadataRequest&) {
        return absl::StatusOr<inference::ServerMetadataResponse>(DescribeServer(has_shared_memory));
      });
}

void OpenInferenceService::AddModelMethods() {
  Add(&Service::RequestModelMetadata,
      [this](const inference::ModelMetadataRequest& request)
          -> absl::StatusOr<inference::ModelMetadataResponse> {
        ASSIGN_OR_RETURN(const InferTarget target,
                         FindTarget(dependencies_.models, request.name(), request.version()));
        std::vector<std::string> versions;
        for (const InferTarget& served : Served()) {
          if (served.name == target.name) {
            versions.push_back(absl::StrCat(served.version));
          }
        }
        return DescribeMetadata(target, versions);
      });
  Add(&Service::RequestModelConfig,
      [this](const inference::ModelConfigRequest& request)
          -> absl::StatusOr<inference::ModelConfigResponse> {
        ASSIGN_OR_RETURN(const InferTarget target,
                         FindTarget(dependencies_.models, request.name(), request.version()));
        inference::ModelConfigResponse response;
        *response.mutable_config() = DescribeConfig(target);
        return response;
      });
}

void OpenInferenceService::AddStatistics() {
  Add(&Service::RequestModelStatistics,
      [this](const inference::ModelStatisticsRequest& request)
          -> absl::StatusOr<inference::ModelStatisticsResponse> {
        if (!request.name().empty()) {
          RETURN_IF_ERROR(
              FindTarget(dependencies_.models, request.name(), request.version()).status());
        }
        inference::ModelStatisticsResponse response;
        const auto counts = dependencies_.observer.counts_by_model();
        for (const InferTarget& served : Served()) {
          const bool is_named = request.name().empty() || request.name() == served.name;
          const bool is_versions =
              request.version().empty() || request.version() == absl::StrCat(served.version);
          if (is_named && is_versions) {
            const auto found = counts.find({served.name, served.version});
            *response.add_model_stats() =
                DescribeStatistics(served, found == counts.end() ? RequestCounts() : found->second);
          }
        }
        return response;
      });
}

void OpenInferenceService::AddRepositoryMethods() {
  Add(&Service::RequestRepositoryIndex,
      [this](const inference::RepositoryIndexRequest& request)
          -> absl::StatusOr<inference::RepositoryIndexResponse> {
        RETURN_IF_ERROR(CheckRepositoryName(request.repository_name()));
        const ModelLoader* const loader = dependencies_.loader;
        inference::RepositoryIndexResponse response;
        for (auto& entry : DescribeIndex(
                 Served(), loader == nullptr ? std::vector<ModelState>() : loader->States())) {
          if (!request.ready() || entry.state() == "READY") {
            *response.add_models() = std::move(entry);
          }
        }
        return response;
      });
  AddChange(&Service::RequestRepositoryModelLoad, &ModelLoader::Load);
  AddChange(&Service::RequestRepositoryModelUnload, &ModelLoader::Unload);
}

void OpenInferenceService::AddSharedMemoryMethods() {
  Add(&Service::RequestSystemSharedMemoryStatus,
      [this](const inference::SystemSharedMemoryStatusRequest& request)
          -> absl::StatusOr<inference::SystemSharedMemoryStatusResponse> {
        if (!allows_shared_memory_) {
          return SharedMemoryIsOff();
        }
        ASSIGN_OR_RETURN(const std::vector<SharedRegionSpec> regions,
                         shared_memory_.List(request.name()));
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
  Add(&Service::RequestSystemSharedMemoryRegister,
      [this](const inference::SystemSharedMemoryRegisterRequest& request)
          -> absl::StatusOr<inference::SystemSharedMemoryRegisterResponse> {
        if (!allows_shared_memory_) {
          return SharedMemoryIsOff();
        }
        RETURN_IF_ERROR(shared_memory_.Register(
            {request.name(), request.key(), request.offset(), request.byte_size()}));
        return inference::SystemSharedMemoryRegisterResponse();
      });
  Add(&Service::RequestSystemSharedMemoryUnregister,
      [this](const inference::SystemSharedMemoryUnregisterRequest& request)
          -> absl::StatusOr<inference::SystemSharedMemoryUnregisterResponse> {
        if (!allows_shared_memory_) {
          return SharedMemoryIsOff();
        }
        shared_memory_.Unregister(request.name());
        return inference::SystemSharedMemoryUnregisterResponse();
      });
}

}  // namespace attention
