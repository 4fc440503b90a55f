#include "server/services/attention_service.h"

#include <chrono>
#include <optional>

#include "core/runtime/status_macros.h"
#include "server/services/admin/model_info.h"
#include "server/services/admin/server_statistics.h"
#include "server/services/admin/set_logging.h"
#include "server/services/plan/find_model.h"

namespace attention {
namespace {

// The number of calls that wait for each method. A burst needs at least as many as the completion
// threads can accept between two posts; each costs a few kilobytes.
constexpr int kPostedAttends = 16;

NativeEnvironment MakeEnvironment(AttentionAsyncService& service,
                                  const AttentionService::Dependencies& dependencies,
                                  const v1::ModelLimits& limits) {
  NativeEnvironment native = {.service = service, .calls = dependencies.calls};
  native.calls.unary_limit = {limits.max_message_bytes(),
                              "--max-message-bytes; AttendStream may send more"};
  native.calls.stream_limit = {limits.max_queue_bytes(), "--max-queue-bytes"};
  return native;
}

absl::StatusOr<v1::ListModelsResponse> ListModels(const ModelRepository& models,
                                                  const v1::ModelLimits& limits,
                                                  const Caller& caller) {
  v1::ListModelsResponse response;
  for (const std::shared_ptr<const Model>& model : models.List()) {
    if (caller.MayUse(model->name())) {
      *response.add_models() = DescribeModel(*model, limits);
    }
  }
  return response;
}

absl::StatusOr<v1::Model> GetModel(const ModelRepository& models, const v1::ModelLimits& limits,
                                   const v1::GetModelRequest& request, const Caller& caller) {
  RETURN_IF_ERROR(caller.CheckModel(request.model()));
  std::optional<int64_t> version;
  if (request.has_version()) {
    version = request.version();
  }
  const absl::StatusOr<std::shared_ptr<const Model>> model =
      FindModel(models, request.model(), version, {"model", "version"});
  RETURN_IF_ERROR(caller.HideOtherModels(model.status()));
  return DescribeModel(**model, limits);
}

}  // namespace

AttentionService::AttentionService(const Dependencies& dependencies, const v1::ModelLimits& limits)
    : native_(MakeEnvironment(service_, dependencies, limits)),
      decode_{service_, native_.calls, dependencies.calls.sessions},
      list_models_{service_,
                   "ListModels",
                   Right::kCall,
                   ListModelsCall::AtOnce([&models = dependencies.calls.models, limits](
                                              const v1::ListModelsRequest&, const Caller& caller) {
                     return ListModels(models, limits, caller);
                   }),
                   dependencies.calls.access,
                   dependencies.calls.observer,
                   nullptr,
                   dependencies.calls.live_calls,
                   dependencies.calls.receiving},
      get_model_{
          service_,
          "GetModel",
          Right::kCall,
          GetModelCall::AtOnce([&models = dependencies.calls.models, limits](
                                   const v1::GetModelRequest& request, const Caller& caller) {
            return GetModel(models, limits, request, caller);
          }),
          dependencies.calls.access,
          dependencies.calls.observer,
          nullptr,
          dependencies.calls.live_calls,
          dependencies.calls.receiving},
      get_statistics_{
          service_,
          "GetStatistics",
          Right::kCall,
          GetStatisticsCall::AtOnce([dependencies, start = std::chrono::steady_clock::now()](
                                        const v1::GetStatisticsRequest&, const Caller& caller) {
            return absl::StatusOr<v1::ServerStatistics>(
                DescribeStatistics({dependencies.calls.observer, dependencies.calls.executor,
                                    dependencies.calls.sessions, start},
                                   caller));
          }),
          dependencies.calls.access,
          dependencies.calls.observer,
          nullptr,
          dependencies.calls.live_calls,
          dependencies.calls.receiving},
      set_logging_{service_,
                   "SetLogging",
                   Right::kAdmin,
                   SetLoggingCall::AtOnce([&observer = dependencies.calls.observer](
                                              const v1::SetLoggingRequest& request) {
                     return SetLogging(request, observer);
                   }),
                   dependencies.calls.access,
                   dependencies.calls.observer,
                   nullptr,
                   dependencies.calls.live_calls,
                   dependencies.calls.receiving},
      model_admin_({service_, dependencies.loader, dependencies.calls.access,
                    dependencies.calls.observer, dependencies.calls.admission,
                    dependencies.calls.live_calls, dependencies.calls.receiving}) {
  for (const char* const method : {"Attend", "AttendStream", "Decode", "ListModels", "GetModel",
                                   "GetStatistics", "SetLogging"}) {
    service_.Serve(method);
  }
}

void AttentionService::Start(grpc::ServerCompletionQueue* queue) {
  native_.calls.queue = queue;
  list_models_.queue = queue;
  get_model_.queue = queue;
  get_statistics_.queue = queue;
  set_logging_.queue = queue;
  for (int i = 0; i < kPostedAttends; ++i) {
    AttendUnaryCall::Post(native_);
    AttendStreamCall::Post(native_);
    DecodeCall::Post(decode_);
    ListModelsCall::Post(list_models_);
    GetModelCall::Post(get_model_);
    GetStatisticsCall::Post(get_statistics_);
    SetLoggingCall::Post(set_logging_);
  }
  model_admin_.Start(queue);
}

}  // namespace attention
