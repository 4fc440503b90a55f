#include "server/services/attention_service.h"

#include "core/runtime/status_macros.h"
#include "server/services/model_info.h"

namespace attention {
namespace {

// Calls that wait for each method: a burst must not find fewer than the completion threads can pick
// up between two posts, and each costs a few kilobytes.
constexpr int kPostedCalls = 16;

AttendEnvironment MakeEnvironment(AttentionAsyncService& service,
                                  const AttentionService::Dependencies& dependencies,
                                  const v1::ModelLimits& limits) {
  return {.service = service,
          .queue = nullptr,
          .models = dependencies.models,
          .executor = dependencies.executor,
          .admission = dependencies.admission,
          .live_calls = dependencies.live_calls,
          .unary_limit = {limits.max_message_bytes(),
                          "--max-message-bytes; AttendStream may send more"},
          .stream_limit = {limits.max_queue_bytes(), "--max-queue-bytes"}};
}

}  // namespace

AttentionService::AttentionService(const Dependencies& dependencies, const v1::ModelLimits& limits)
    : attend_(MakeEnvironment(service_, dependencies, limits)),
      list_models_{service_, &AttentionAsyncService::RequestListModels,
                   [&models = dependencies.models, limits](const v1::ListModelsRequest&) {
                     v1::ListModelsResponse response;
                     for (const std::shared_ptr<const Model>& model : models.List()) {
                       *response.add_models() = DescribeModel(*model, limits);
                     }
                     return absl::StatusOr<v1::ListModelsResponse>(std::move(response));
                   },
                   nullptr, dependencies.live_calls},
      get_model_{service_, &AttentionAsyncService::RequestGetModel,
                 [&models = dependencies.models,
                  limits](const v1::GetModelRequest& request) -> absl::StatusOr<v1::Model> {
                   std::optional<int64_t> version;
                   if (request.has_version()) {
                     version = request.version();
                   }
                   ASSIGN_OR_RETURN(const std::shared_ptr<const Model> model,
                                    FindModel(models, request.model(), version));
                   return DescribeModel(*model, limits);
                 },
                 nullptr, dependencies.live_calls},
      model_admin_(
          {service_, dependencies.loader, dependencies.admission, dependencies.live_calls}) {}

void AttentionService::Start(grpc::ServerCompletionQueue* queue) {
  attend_.queue = queue;
  list_models_.queue = queue;
  get_model_.queue = queue;
  for (int i = 0; i < kPostedCalls; ++i) {
    AttendUnaryCall::Post(attend_);
    AttendStreamCall::Post(attend_);
    ListModelsCall::Post(list_models_);
    GetModelCall::Post(get_model_);
  }
  model_admin_.Start(queue);
}

}  // namespace attention
