#include "server/service_set.h"

#include "core/runtime/status_macros.h"

namespace attention {
namespace {

CallEnvironment CallsOf(const ServiceSet::Shared& shared, const Access& access) {
  return {.queue = nullptr,
          .models = shared.models,
          .executor = shared.executor,
          .sessions = shared.sessions,
          .admission = shared.admission,
          .live_calls = shared.live_calls,
          .receiving = shared.receiving,
          .idle = shared.idle,
          .access = access,
          .observer = shared.observer,
          .unary_limit = {},
          .stream_limit = {}};
}

}  // namespace

ServiceSet::ServiceSet(const Shared& shared, const Access::Rules& rules,
                       const v1::ModelLimits& limits)
    : shared_(shared),
      access_(rules),
      attention_({CallsOf(shared, access_), shared.loader}, limits),
      open_inference_(
          {CallsOf(shared, access_), shared.loader, shared.health, shared.shared_memory},
          limits.max_message_bytes()),
      health_({shared.health, shared.observer, shared.open_streams, shared.live_calls,
               shared.receiving, access_}) {}

absl::Status ServiceSet::Open(const ListenerOptions& options) {
  std::vector<grpc::Service*> services = {&attention_.grpc_service(),
                                          &open_inference_.grpc_service(), &health_.grpc_service()};
  if (options.has_reflection) {
    reflection_.emplace(
        ReflectionService::Dependencies{shared_.observer, shared_.open_streams, shared_.live_calls,
                                        access_},
        std::vector<std::string>{v1::AttentionService::service_full_name(),
                                 inference::GRPCInferenceService::service_full_name(),
                                 grpc::health::v1::Health::service_full_name()});
    const std::vector<grpc::Service*> more = reflection_->grpc_services();
    services.insert(services.end(), more.begin(), more.end());
  }
  ASSIGN_OR_RETURN(listener_, Listener::Open(options, services));
  return absl::OkStatus();
}

void ServiceSet::Start(int num_threads) {
  attention_.Start(listener_->queue());
  open_inference_.Start(listener_->queue());
  health_.Start(listener_->queue());
  if (reflection_.has_value()) {
    reflection_->Start(listener_->queue());
  }
  listener_->StartThreads(num_threads);
}

}  // namespace attention
