#include "server/services/admin/reflection_service.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/codec/status.h"
#include "server/services/admin/reflection.h"
#include "server/services/calls/call_metadata.h"
#include "server/services/calls/completion_threads.h"
#include "server/services/calls/message_limits.h"

namespace attention {
namespace {

using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

constexpr char kMethod[] = "ServerReflectionInfo";
constexpr int kPostedCalls = 2;

// What the calls of one version share. Both versions have the same messages on the wire.
struct ReflectionMethod {
  std::function<void(grpc::ServerContext&, RawStream&, void* tag)> request_call;
  const std::vector<std::string>& services;
  const CallEnvironment& calls;
};

// Answers one request at a time: it reads the next one when the answer is sent. A request has as
// long to come as any small message: a message that has begun cannot be told from none. An answer
// has as long to be taken.
class ReflectionCall final : public MessageReceiver,
                             public std::enable_shared_from_this<ReflectionCall> {
 public:
  static void Post(const std::shared_ptr<const ReflectionMethod>& method) {
    const auto call = std::make_shared<ReflectionCall>(method);
    call->on_request_.ArmFor(
        [&](void* tag) { method->request_call(call->context_, call->stream_, tag); });
  }

  explicit ReflectionCall(std::shared_ptr<const ReflectionMethod> method)
      : method_(std::move(method)),
        visit_(method_->calls.live_calls),
        reception_(method_->calls.receiving) {}

  std::string Holder() const override { return AccountOf(Caller(), context_); }
  void StopReceiving(const absl::Status& status) noexcept override {
    if (is_sending_) {  // the caller does not take the answer
      context_.TryCancel();
    } else {
      OnFailure(status);
    }
  }

  // Cancels the call when not even the error can be sent.
  void OnFailure(const absl::Status& status) noexcept {
    if (!RunLogged("ending the call", [&] { Finish(status); })) {
      context_.TryCancel();
    }
  }

 private:
  void OnRequest(bool ok) {
    if (!ok) {
      return;
    }
    PostWithRetries([this] { Post(method_); });
    arrival_ = std::chrono::steady_clock::now();
    method_->calls.access.CountCall(context_);
    absl::StatusOr<OpenStreams::Slot> slot =
        method_->calls.open_streams.TakeSlot(context_, kMethod);
    if (!slot.ok()) {
      Finish(slot.status());
      return;
    }
    slot_ = *std::move(slot);
    Read();
  }

  void Read() {
    reception_.Begin(weak_from_this(), kMaxOpenMessageBytes);
    on_read_.ArmFor([&](void* tag) { stream_.Read(&message_, tag); });
  }

  void OnRead(bool ok) {
    if (!reception_.End()) {
      return;  // StopReceiving ends the call
    }
    if (!ok) {
      Finish(absl::OkStatus());
      return;
    }
    ServerReflectionRequest request;
    const absl::Status status = ReadSmallMessage(context_, message_, kMaxOpenMessageBytes, request);
    message_.Clear();
    if (!status.ok()) {
      Finish(status);
      return;
    }
    grpc::ByteBuffer answer;
    bool is_own = false;
    grpc::SerializationTraits<ServerReflectionResponse>::Serialize(
        AnswerReflection(request, method_->services), &answer, &is_own);
    is_sending_ = true;
    const bool has_unit =
        reception_.BeginAnswer(weak_from_this(), static_cast<int64_t>(answer.Length()), Holder());
    on_written_.ArmFor([&](void* tag) { stream_.Write(answer, tag); });
    if (!has_unit) {
      context_.TryCancel();
    }
  }

  void OnWritten(bool ok) {
    const bool is_stopped = !reception_.End();
    is_sending_ = is_stopped;  // then StopReceiving may still come, and must not finish the call
    if (ok && !is_stopped) {
      Read();
    } else {
      Finish(absl::OkStatus());
    }
  }

  void Finish(const absl::Status& status) {
    if (!status.ok()) {
      method_->calls.observer.OnEnd(RecordOf(context_, kMethod, arrival_, status));
      AddRefusalTrailers(status, context_);
    }
    const grpc::Status end = ToGrpcStatus(status);
    on_finish_.ArmFor([&](void* tag) { stream_.Finish(end, tag); });
  }
  void OnFinish(bool) {}

  const std::shared_ptr<const ReflectionMethod> method_;
  const Visit visit_;
  Reception reception_;  // of a request, or of who takes the answer to it
  std::atomic<bool> is_sending_ = false;
  OpenStreams::Slot slot_;
  grpc::ServerContext context_;
  RawStream stream_{&context_};
  grpc::ByteBuffer message_;
  TimePoint arrival_;
  CallTag<ReflectionCall> on_request_{this, &ReflectionCall::OnRequest};
  CallTag<ReflectionCall> on_read_{this, &ReflectionCall::OnRead};
  CallTag<ReflectionCall> on_written_{this, &ReflectionCall::OnWritten};
  CallTag<ReflectionCall> on_finish_{this, &ReflectionCall::OnFinish};
};

}  // namespace

ReflectionService::ReflectionService(const CallEnvironment& calls,
                                     std::vector<std::string> services)
    : calls_(calls), services_(std::move(services)) {
  // The calls of v1alpha use the messages of v1. Without this, the descriptors of v1alpha's own
  // messages would not be linked into the program.
  static_cast<void>(grpc::reflection::v1alpha::ServerReflectionRequest::descriptor());
  services_.push_back(grpc::reflection::v1::ServerReflection::service_full_name());
  services_.push_back(grpc::reflection::v1alpha::ServerReflection::service_full_name());
  v1_.Serve(kMethod);
  v1alpha_.Serve(kMethod);
}

void ReflectionService::Start() {
  const auto start = [this](auto& service) {
    const auto request_call = [&service, queue = calls_.queue](grpc::ServerContext& context,
                                                               RawStream& stream, void* tag) {
      service.RequestCall(0, context, stream, queue, tag);  // 0: the only method of the service
    };
    const auto method =
        std::make_shared<const ReflectionMethod>(ReflectionMethod{request_call, services_, calls_});
    for (int i = 0; i < kPostedCalls; ++i) {
      ReflectionCall::Post(method);
    }
  };
  start(v1_);
  start(v1alpha_);
}

}  // namespace attention
