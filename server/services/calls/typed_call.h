// A unary call whose request and reply are messages. The completion thread answers it at once, or
// another thread does later; meanwhile the call holds no thread.
#pragma once

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/codec/arena_message.h"
#include "proto/codec/status.h"
#include "server/observability/requests.h"
#include "server/scheduling/gate.h"
#include "server/security/access.h"
#include "server/services/calls/call_metadata.h"
#include "server/services/calls/completion_threads.h"
#include "server/services/calls/headers_first.h"
#include "server/services/calls/message_limits.h"
#include "server/services/calls/receive_watch.h"

namespace attention {

/// One call of a method. `Service` is a HeadersFirst.
template <typename Service, typename Request, typename Reply>
class TypedCall final : public MessageReceiver,
                        public std::enable_shared_from_this<TypedCall<Service, Request, Reply>> {
 public:
  /// One method of one service, shared by its calls. The members outlive the calls.
  struct Method {
    Service& service;
    /// The name for Service::Serve; a literal.
    const char* name;
    Right right;
    /// Begins the call without blocking, and ensures that Finish is called once, at any time, by
    /// any thread.
    std::function<void(const std::shared_ptr<TypedCall>& call)> begin;
    const Access& access;
    /// Receives the records of calls that fail.
    RequestObserver& observer;
    /// The gate of unanswered calls; closed when the server drains. Null: calls are answered during
    /// draining too.
    Gate* admission;
    /// Counts all call objects.
    Gate& live_calls;
    /// Watches the request while it is received.
    ReceiveWatch& receiving;
    grpc::ServerCompletionQueue* queue = nullptr;
  };

  /// Returns a Method's `begin` that answers at once, with answer(request) or answer(request,
  /// caller).
  template <typename Answer>
  static auto AtOnce(Answer answer) {
    return [answer = std::move(answer)](const std::shared_ptr<TypedCall>& call) {
      if constexpr (std::is_invocable_v<Answer, const Request&, const Caller&>) {
        call->Finish(answer(call->request(), call->caller()));
      } else {
        call->Finish(answer(call->request()));
      }
    };
  }

  /// Waits for one call; each call that arrives posts its successor.
  static void Post(const Method& method) {
    const auto call = std::make_shared<TypedCall>(method);
    ArmForClient(call->on_done_, call->on_request_, [&](void* tag) {
      method.service.RequestCall(Service::IndexOf(method.name), call->context_, call->stream_,
                                 method.queue, tag);
    });
  }

  explicit TypedCall(const Method& method)
      : method_(method), visit_(method.live_calls), reception_(method.receiving) {
    context_.AsyncNotifyWhenDone(static_cast<CompletionTag*>(&on_done_));
  }

  const Request& request() const { return *request_; }
  const Caller& caller() const { return caller_; }
  /// Returns whether no caller waits for the answer: the call is cancelled, past its deadline, or
  /// gone.
  bool is_cancelled() const { return is_cancelled_; }

  /// Answers the call; any thread. Only the first call of this has an effect. Does not throw.
  void Finish(const absl::StatusOr<Reply>& reply) noexcept {
    if (has_end_.exchange(true)) {
      return;
    }
    absl::Status sent = ContainVoid("answering the call", [&] { Send(reply); });
    if (!sent.ok()) {
      sent = ContainVoid("answering the call", [&] { Send(sent); });
    }
    if (!sent.ok()) {  // not even an error can be sent
      LogFailure(sent);
      ContainVoid("ending the call", [&] { context_.TryCancel(); }).IgnoreError();
    }
  }

  ~TypedCall() { LeaveAdmission(); }

  void OnFailure(const absl::Status& status) noexcept { Finish(status); }
  std::string Holder() const override { return AccountOf(caller_, context_); }
  void StopReceiving(const absl::Status& status) noexcept override { Finish(status); }

 private:
  void Send(const absl::StatusOr<Reply>& reply) {
    if (!reply.ok()) {
      const grpc::Status status = ToGrpcStatus(reply.status());
      method_.observer.OnEnd(RecordOf(context_, method_.name, arrival_, reply.status()));
      AddRefusalTrailers(reply.status(), context_);
      on_finish_.ArmFor([&](void* tag) { stream_.Finish(status, tag); });
      return;
    }
    grpc::ByteBuffer message;
    bool is_own = false;
    const grpc::Status status =
        grpc::SerializationTraits<Reply>::Serialize(*reply, &message, &is_own);
    on_finish_.ArmFor(
        [&](void* tag) { stream_.WriteAndFinish(message, grpc::WriteOptions(), status, tag); });
  }

  void LeaveAdmission() {
    if (std::exchange(is_admitted_, false)) {
      method_.admission->Leave();
    }
  }

  void OnRequest(bool ok) {
    if (!ok) {
      on_done_.Disarm();
      return;
    }
    PostWithRetries([this] { Post(method_); });
    method_.access.CountCall(context_);
    arrival_ = std::chrono::steady_clock::now();
    absl::StatusOr<Caller> caller = method_.access.Admit(context_, method_.right, method_.name);
    if (!caller.ok()) {
      Finish(caller.status());
      return;
    }
    caller_ = *std::move(caller);
    is_admitted_ = method_.admission != nullptr && method_.admission->TryEnter();
    if (method_.admission != nullptr && !is_admitted_) {
      Finish(absl::UnavailableError("the server is draining"));
      return;
    }
    reception_.Begin(this->weak_from_this(), MaxMessageBytes(method_.right));
    on_message_.ArmFor([&](void* tag) { stream_.Read(&message_, tag); });
  }

  void OnMessage(bool ok) {
    if (!reception_.End()) {
      return;  // StopReceiving ends the call
    }
    if (ok) {
      method_.access.CountRequest(context_, method_.right);
    }
    const absl::Status status =
        ok ? ReadSmallMessage(context_, message_, MaxMessageBytes(method_.right), *request_)
           : absl::InvalidArgumentError(absl::StrCat(
                 "expected a ", Request::descriptor()->full_name(), ", found the end of the call"));
    message_.Clear();
    if (status.ok()) {
      if (method_.right == Right::kAdmin) {
        LogAdministration(context_, caller_, method_.name, *request_);
      }
      method_.begin(this->shared_from_this());
    } else {
      Finish(status);
    }
  }
  void OnDone(bool) { is_cancelled_ = is_cancelled_ || context_.IsCancelled(); }
  void OnFinish(bool) { LeaveAdmission(); }

  const Method& method_;
  const Visit visit_;
  Reception reception_;
  grpc::ServerContext context_;
  RawStream stream_{&context_};
  grpc::ByteBuffer message_;
  ArenaMessage<Request> request_;
  Caller caller_;
  TimePoint arrival_;
  CallTag<TypedCall> on_request_{this, &TypedCall::OnRequest};
  CallTag<TypedCall> on_message_{this, &TypedCall::OnMessage};
  CallTag<TypedCall> on_done_{this, &TypedCall::OnDone};
  CallTag<TypedCall> on_finish_{this, &TypedCall::OnFinish};
  bool is_admitted_ = false;
  std::atomic<bool> has_end_ = false;
  std::atomic<bool> is_cancelled_ = false;
};

}  // namespace attention
