#include "server/service_set.h"

#include "core/runtime/status_macros.h"

namespace attention {
ServiceSet::ServiceSet(const Shared& shared, const Access::Rules& rules,
                       const v1::ModelLimits& limits)
    : access_(rules),
      calls_{shared.parts, access_},
      attention_(calls_, limits),
      open_inference_(calls_, shared.shared_memory, limits.max_message_bytes()),
      health_(calls_) {}

absl::Status ServiceSet::Open(const ListenerOptions& options) {
  std::vector<grpc::Service*> services = {&attention_.grpc_service(),
                                          &open_inference_.grpc_service(), &health_.grpc_service()};
  if (options.has_reflection) {
    reflection_.emplace(
        calls_, std::vector<std::string>{v1::AttentionService::service_full_name(),
                                         inference::GRPCInferenceService::service_full_name(),
                                         grpc::health::v1::Health::service_full_name()});
    const std::vector<grpc::Service*> more = reflection_->grpc_services();
    services.insert(services.end(), more.begin(), more.end());
  }
  ASSIGN_OR_RETURN(listener_, Listener::Open(options, services));
  return absl::OkStatus();
}

void ServiceSet::Start(int num_threads) {
  calls_.queue = listener_->queue();
  attention_.Start();
  open_inference_.Start();
  health_.Start();
  if (reflection_.has_value()) {
    reflection_->Start();
  }
  listener_->StartThreads(num_threads);
}

}  // namespace attention
