#include "server/services/health_service.h"

#include <grpcpp/support/async_stream.h>

#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"

namespace attention {
namespace {

using ::grpc::health::v1::Health;
using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;
using WatchableHealth = Health::WithAsyncMethod_Watch<Health::Service>;

constexpr int kPostedChecks = 8;

HealthCheckResponse::ServingStatus StatusOf(const HealthRegistry& registry,
                                            const std::string& name) {
  const std::optional<bool> is_serving = registry.IsServing(name);
  if (!is_serving.has_value()) {
    return HealthCheckResponse::SERVICE_UNKNOWN;
  }
  return *is_serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

absl::StatusOr<HealthCheckResponse> Check(const HealthRegistry& registry,
                                          const HealthCheckRequest& request) {
  HealthCheckResponse response;
  response.set_status(StatusOf(registry, request.service()));
  if (response.status() == HealthCheckResponse::SERVICE_UNKNOWN) {
    return absl::NotFoundError(
        absl::StrCat("service: expected empty, a service's full name or model/NAME, found \"",
                     request.service(), "\""));
  }
  return response;
}

struct WatchMethod {
  WatchableHealth& service;
  HealthRegistry& registry;
  grpc::ServerCompletionQueue* queue;
  Gate& live_calls;
};

// Tells a state as soon as it differs from the last one told.
class WatchCall final : public HealthListener, public std::enable_shared_from_this<WatchCall> {
 public:
  static void Post(const WatchMethod& method) {
    const auto call = std::make_shared<WatchCall>(method);
    call->on_done_.Arm();
    method.service.RequestWatch(&call->context_, &call->request_, &call->writer_, method.queue,
                                method.queue, call->on_request_.Arm());
  }

  explicit WatchCall(const WatchMethod& method) : method_(method), visit_(method.live_calls) {
    context_.AsyncNotifyWhenDone(static_cast<CompletionTag*>(&on_done_));
  }

  void OnHealthChange() override { Advance(); }

 private:
  void OnRequest(bool ok) {
    if (!ok) {
      on_done_.Disarm();
      return;
    }
    Post(method_);
    method_.registry.Subscribe(weak_from_this());
    Advance();
  }

  void OnWritten(bool ok) {
    {
      MutexLock lock(mutex_);
      is_busy_ = !ok;  // a call that broke is not written to again
    }
    Advance();
  }

  // The caller left: without pending operations, this was the last owner.
  void OnDone(bool) {
    MutexLock lock(mutex_);
    is_busy_ = true;
  }
  void OnFinish(bool) {}

  void Advance() {
    const bool is_over = method_.registry.is_closed();
    MutexLock lock(mutex_);
    const HealthCheckResponse::ServingStatus status =
        StatusOf(method_.registry, request_.service());
    if (is_busy_) {
      return;
    }
    if (status != told_) {  // also when all is over: the last state is told before the end
      is_busy_ = true;
      told_ = status;
      HealthCheckResponse response;
      response.set_status(status);
      writer_.Write(response, on_written_.Arm());
    } else if (is_over) {
      is_busy_ = true;
      writer_.Finish(ToGrpcStatus(absl::UnavailableError("the server is shutting down")),
                     on_finish_.Arm());
    }
  }

  const WatchMethod method_;
  const Visit visit_;
  grpc::ServerContext context_;
  HealthCheckRequest request_;
  grpc::ServerAsyncWriter<HealthCheckResponse> writer_{&context_};
  CallTag<WatchCall> on_request_{this, &WatchCall::OnRequest};
  CallTag<WatchCall> on_written_{this, &WatchCall::OnWritten};
  CallTag<WatchCall> on_finish_{this, &WatchCall::OnFinish};
  CallTag<WatchCall> on_done_{this, &WatchCall::OnDone};

  Mutex mutex_;
  /// True for good once the call is over.
  bool is_busy_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<HealthCheckResponse::ServingStatus> told_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

HealthService::HealthService(HealthRegistry& registry, RequestObserver& observer, Gate& live_calls)
    : registry_(registry),
      live_calls_(live_calls),
      check_{service_,
             "Check",
             Right::kNone,
             CheckCall::AtOnce([&registry](const HealthCheckRequest& request) {
               return Check(registry, request);
             }),
             everybody_,
             observer,
             nullptr,
             live_calls} {
  service_.Serve("Check");
}

void HealthService::Start(grpc::ServerCompletionQueue* queue) {
  check_.queue = queue;
  for (int i = 0; i < kPostedChecks; ++i) {
    CheckCall::Post(check_);
    WatchCall::Post({service_, registry_, queue, live_calls_});
  }
}

}  // namespace attention
