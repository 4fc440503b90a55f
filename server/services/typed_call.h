// A unary call whose request and reply are messages: answered on the spot by the completion thread,
// or later by another thread; meanwhile it holds none.
#pragma once

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/codec/status.h"
#include "server/observability/requests.h"
#include "server/scheduling/gate.h"
#include "server/security/access.h"
#include "server/services/call_metadata.h"
#include "server/services/completion_threads.h"
#include "server/services/headers_first.h"

namespace attention {

/// `Service` is a HeadersFirst.
template <typename Service, typename Request, typename Reply>
class TypedCall : public std::enable_shared_from_this<TypedCall<Service, Request, Reply>> {
 public:
  /// One method of one service, shared by its calls. All outlive them.
  struct Method {
    Service& service;
    /// Of Service::Serve; a literal.
    const char* name;
    Right right;
    /// Does not block; sees to it that Finish is called once, at any time, by any thread.
    std::function<void(const std::shared_ptr<TypedCall>& call)> begin;
    const Access& access;
    /// Hears of calls that fail.
    RequestObserver& observer;
    /// Closed when the server drains; calls that are not yet answered are inside. Null: those that
    /// are answered meanwhile too.
    Gate* admission;
    Gate& live_calls;
    grpc::ServerCompletionQueue* queue = nullptr;
  };

  /// A Method's `begin` that answers at once, with answer(request) or answer(request, caller).
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

  /// Waits for one call; each call that comes posts its successor.
  static void Post(const Method& method) {
    const auto call = std::make_shared<TypedCall>(method);
    call->on_done_.Arm();
    method.service.RequestCall(Service::IndexOf(method.name), call->context_, call->stream_,
                               method.queue, call->on_request_.Arm());
  }

  explicit TypedCall(const Method& method) : method_(method), visit_(method.live_calls) {
    context_.AsyncNotifyWhenDone(static_cast<CompletionTag*>(&on_done_));
  }

  const Request& request() const { return request_; }
  const Caller& caller() const { return caller_; }
  /// Nobody waits for the answer: cancelled, past its deadline, or gone.
  bool is_cancelled() const { return is_cancelled_; }

  void Finish(const absl::StatusOr<Reply>& reply) {
    if (!reply.ok()) {
      method_.observer.OnEnd(RecordOf(context_, method_.name, arrival_, reply.status()));
      stream_.Finish(ToGrpcStatus(reply.status()), on_finish_.Arm());
      return;
    }
    grpc::ByteBuffer message;
    bool is_own = false;
    const grpc::Status status =
        grpc::SerializationTraits<Reply>::Serialize(*reply, &message, &is_own);
    stream_.WriteAndFinish(message, grpc::WriteOptions(), status, on_finish_.Arm());
  }

 private:
  void OnRequest(bool ok) {
    if (!ok) {
      on_done_.Disarm();
      return;
    }
    Post(method_);
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
    stream_.Read(&message_, on_message_.Arm());
  }

  void OnMessage(bool ok) {
    if (ok && grpc::SerializationTraits<Request>::Deserialize(&message_, &request_).ok()) {
      method_.begin(this->shared_from_this());
    } else {
      Finish(absl::InvalidArgumentError(absl::StrCat("expected a ",
                                                     Request::descriptor()->full_name(), ", found ",
                                                     ok ? "other bytes" : "the end of the call")));
    }
  }
  void OnDone(bool) { is_cancelled_ = is_cancelled_ || context_.IsCancelled(); }
  void OnFinish(bool) {
    if (is_admitted_) {
      method_.admission->Leave();
    }
  }

  const Method& method_;
  const Visit visit_;
  grpc::ServerContext context_;
  RawStream stream_{&context_};
  grpc::ByteBuffer message_;
  Request request_;
  Caller caller_;
  TimePoint arrival_;
  CallTag<TypedCall> on_request_{this, &TypedCall::OnRequest};
  CallTag<TypedCall> on_message_{this, &TypedCall::OnMessage};
  CallTag<TypedCall> on_done_{this, &TypedCall::OnDone};
  CallTag<TypedCall> on_finish_{this, &TypedCall::OnFinish};
  bool is_admitted_ = false;
  std::atomic<bool> is_cancelled_ = false;
};

}  // namespace attention
