#include "server/services/attention_service.h"

#include <chrono>
#include <optional>

#include "core/runtime/status_macros.h"
#include "server/services/admin/model_admin.h"
#include "server/services/admin/model_info.h"
#include "server/services/admin/server_statistics.h"
#include "server/services/admin/set_logging.h"
#include "server/services/plan/find_model.h"

namespace attention {
namespace {

// The number of calls that wait for each method. A burst needs at least as many as the completion
// threads can accept between two posts; each costs a few kilobytes.
constexpr int kPostedCalls = 16;

NativeEnvironment MakeEnvironment(AttentionAsyncService& service, const CallEnvironment& calls,
                                  const v1::ModelLimits& limits) {
  NativeEnvironment native = {.service = service, .calls = calls};
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

AttentionService::AttentionService(const CallEnvironment& calls, const v1::ModelLimits& limits)
    : calls_(calls),
      native_(MakeEnvironment(service_, calls, limits)),
      methods_(service_, calls, kPostedCalls) {
  for (const char* const method : {"Attend", "AttendStream", "Decode"}) {
    service_.Serve(method);
  }
  AddTypedMethods(limits);
  AddModelAdmin(methods_, calls.loader);
}

void AttentionService::AddTypedMethods(const v1::ModelLimits& limits) {
  methods_.Add<v1::ListModelsRequest, v1::ListModelsResponse>(
      "ListModels", Right::kCall,
      [this, limits](const v1::ListModelsRequest&, const Caller& caller) {
        return ListModels(calls_.models, limits, caller);
      });
  methods_.Add<v1::GetModelRequest, v1::Model>(
      "GetModel", Right::kCall,
      [this, limits](const v1::GetModelRequest& request, const Caller& caller) {
        return GetModel(calls_.models, limits, request, caller);
      });
  methods_.Add<v1::GetStatisticsRequest, v1::ServerStatistics>(
      "GetStatistics", Right::kCall,
      [this, start = std::chrono::steady_clock::now()](const v1::GetStatisticsRequest&,
                                                       const Caller& caller) {
        return absl::StatusOr<v1::ServerStatistics>(
            DescribeStatistics({calls_.observer, calls_.executor, calls_.sessions, start}, caller));
      });
  methods_.Add<v1::SetLoggingRequest, v1::Logging>("SetLogging", Right::kAdmin,
                                                   [this](const v1::SetLoggingRequest& request) {
                                                     return SetLogging(request, calls_.observer);
                                                   });
}

void AttentionService::Start() {
  native_.calls.queue = calls_.queue;
  for (int i = 0; i < kPostedCalls; ++i) {
    AttendUnaryCall::Post(native_);
    AttendStreamCall::Post(native_);
    DecodeCall::Post(native_);
  }
  methods_.Start();
}

}  // namespace attention
