#include "server/service_set.h"

#include "core/runtime/status_macros.h"

namespace attention {

ServiceSet::ServiceSet(const Shared& shared, const Access::Rules& rules,
                       const v1::ModelLimits& limits)
    : access_(rules),
      attention_({shared.models, shared.executor, shared.loader, shared.observer, shared.sessions,
                  shared.admission, shared.live_calls, access_},
                 limits),
      open_inference_(
          {shared.models, shared.executor, shared.loader, shared.observer, shared.health,
           shared.admission, shared.live_calls, access_, shared.shared_memory},
          limits.max_message_bytes()),
      health_(shared.health, shared.observer, shared.live_calls) {}

absl::Status ServiceSet::Open(const ListenerOptions& options) {
  ASSIGN_OR_RETURN(listener_, Listener::Open(options, {&attention_.grpc_service(),
                                                       &open_inference_.grpc_service(),
                                                       &health_.grpc_service()}));
  return absl::OkStatus();
}

void ServiceSet::Start(int num_threads) {
  attention_.Start(listener_->queue());
  open_inference_.Start(listener_->queue());
  health_.Start(listener_->queue());
  listener_->StartThreads(num_threads);
}

}  // namespace attention
