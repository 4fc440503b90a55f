#include "server/services/admin/health_service.h"

#include <chrono>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/services/calls/call_metadata.h"
#include "server/services/calls/message_limits.h"

namespace attention {
namespace {

using ::grpc::health::v1::Health;
using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;
using AsyncHealth = HeadersFirst<Health>;

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
        absl::StrCat("service: expected empty, the full name of a service that is served, or "
                     "model/NAME of a model that is known, found \"",
                     request.service(), "\""));
  }
  return response;
}

struct WatchMethod {
  AsyncHealth& service;
  const CallEnvironment& calls;
};

// Sends the status whenever it differs from the last one sent.
class WatchCall final : public HealthListener,
                        public MessageReceiver,
                        public std::enable_shared_from_this<WatchCall> {
 public:
  static void Post(const WatchMethod& method) {
    const auto call = std::make_shared<WatchCall>(method);
    method.service.AwaitClient(AsyncHealth::IndexOf("Watch"), call->context_, call->stream_,
                               method.calls.queue, call->on_done_, call->on_request_);
  }

  explicit WatchCall(const WatchMethod& method)
      : method_(method), visit_(method.calls.live_calls), reception_(method.calls.receiving) {
    context_.AsyncNotifyWhenDone(static_cast<CompletionTag*>(&on_done_));
  }

  void OnHealthChange() override {
    if (const absl::Status status = ContainVoid("reporting health", [&] { Advance(); });
        !status.ok()) {
      OnFailure(status);
    }
  }

  // Ends the call when a change cannot be sent, since the watcher would believe that there was
  // none.
  void OnFailure(const absl::Status& status) noexcept {
    LogFailure(status);
    {
      MutexLock lock(mutex_);
      is_busy_ = true;
    }
    context_.TryCancel();
  }

  std::string Holder() const override { return AccountOf(Caller(), context_); }
  void StopReceiving(const absl::Status& status) noexcept override {
    if (const absl::Status ended = ContainVoid("ending the call", [&] { Fail(status); });
        !ended.ok()) {
      OnFailure(ended);
    }
  }

 private:
  void OnRequest(bool ok) {
    if (!ok) {
      on_done_.Disarm();
      return;
    }
    PostWithRetries([this] { Post(method_); });
    arrival_ = std::chrono::steady_clock::now();
    method_.calls.access.CountCall(context_);
    absl::StatusOr<OpenStreams::Slot> slot = method_.calls.open_streams.TakeSlot(context_, "Watch");
    if (!slot.ok()) {
      Fail(slot.status());
      return;
    }
    slot_ = *std::move(slot);
    reception_.Begin(weak_from_this(), kMaxOpenMessageBytes);
    on_message_.ArmFor([&](void* tag) { stream_.Read(&message_, tag); });
  }

  void OnMessage(bool ok) {
    if (!reception_.End()) {
      return;  // StopReceiving ends the call
    }
    const absl::Status status =
        ok ? ReadSmallMessage(context_, message_, kMaxOpenMessageBytes, request_)
           : absl::InvalidArgumentError("expected a request message, found the end of the call");
    message_.Clear();
    if (!status.ok()) {
      Fail(status);
      return;
    }
    method_.calls.health.Subscribe(weak_from_this());
    Advance();
  }

  // Ends the call before anything is sent.
  void Fail(const absl::Status& status) {
    {
      MutexLock lock(mutex_);
      is_busy_ = true;
    }
    method_.calls.observer.OnEnd(RecordOf(context_, "Watch", arrival_, status));
    AddRefusalTrailers(status, context_);
    const grpc::Status end = ToGrpcStatus(status);
    on_finish_.ArmFor([&](void* tag) { stream_.Finish(end, tag); });
  }

  void OnWritten(bool ok) {
    {
      MutexLock lock(mutex_);
      is_busy_ = !ok;  // a broken call is not written to again
    }
    Advance();
  }

  // The call has ended: nothing is written any more. If no operation is pending, this tag was the
  // call's last owner.
  void OnDone(bool) {
    MutexLock lock(mutex_);
    is_busy_ = true;
  }
  void OnFinish(bool) {}

  void Advance() {
    const bool is_over = method_.calls.health.is_closed();
    MutexLock lock(mutex_);
    const HealthCheckResponse::ServingStatus status =
        StatusOf(method_.calls.health, request_.service());
    if (is_busy_) {
      return;
    }
    if (status != last_sent_) {  // also at the end: the last status is sent before the call ends
      is_busy_ = true;
      last_sent_ = status;
      HealthCheckResponse response;
      response.set_status(status);
      grpc::ByteBuffer message;
      bool is_own = false;
      grpc::SerializationTraits<HealthCheckResponse>::Serialize(response, &message, &is_own);
      on_written_.ArmFor([&](void* tag) { stream_.Write(message, tag); });
    } else if (is_over) {
      is_busy_ = true;
      const grpc::Status end = ToGrpcStatus(absl::UnavailableError("the server is shutting down"));
      on_finish_.ArmFor([&](void* tag) { stream_.Finish(end, tag); });
    }
  }

  const WatchMethod method_;
  const Visit visit_;
  Reception reception_;
  OpenStreams::Slot slot_;
  grpc::ServerContext context_;
  RawStream stream_{&context_};
  grpc::ByteBuffer message_;
  HealthCheckRequest request_;
  TimePoint arrival_;
  CallTag<WatchCall> on_request_{this, &WatchCall::OnRequest};
  CallTag<WatchCall> on_message_{this, &WatchCall::OnMessage};
  CallTag<WatchCall> on_written_{this, &WatchCall::OnWritten};
  CallTag<WatchCall> on_finish_{this, &WatchCall::OnFinish};
  CallTag<WatchCall> on_done_{this, &WatchCall::OnDone};

  Mutex mutex_;
  /// Stays true when the call is over.
  bool is_busy_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<HealthCheckResponse::ServingStatus> last_sent_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

HealthService::HealthService(const CallEnvironment& calls)
    : calls_(calls), methods_(service_, calls, kPostedChecks) {
  methods_.Add<HealthCheckRequest, HealthCheckResponse>(
      "Check", Right::kNone,
      [this](const HealthCheckRequest& request) { return Check(calls_.health, request); });
  service_.Serve("Watch");
}

void HealthService::Start() {
  methods_.Start();
  for (int i = 0; i < kPostedChecks; ++i) {
    WatchCall::Post({service_, calls_});
  }
}

}  // namespace attention
