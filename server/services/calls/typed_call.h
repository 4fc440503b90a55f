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
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/codec/arena_message.h"
#include "proto/codec/status.h"
#include "server/scheduling/refusal.h"
#include "server/services/calls/call_environment.h"
#include "server/services/calls/call_metadata.h"
#include "server/services/calls/completion_threads.h"
#include "server/services/calls/headers_first.h"
#include "server/services/calls/message_limits.h"

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
    const CallEnvironment& calls;
    /// Whether a call is running until it is answered, for which draining waits, and which it
    /// refuses. Other calls are answered during draining too.
    bool is_admitted = false;
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
    method.service.AwaitClient(Service::IndexOf(method.name), call->context_, call->stream_,
                               method.calls.queue, call->on_done_, call->on_request_);
  }

  explicit TypedCall(const Method& method)
      : method_(method),
        visit_(method.calls.live_calls),
        reception_(method.calls.receiving),
        sending_(method.calls.receiving) {
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
  void StopReceiving(const absl::Status& status) noexcept override {
    if (is_sending_) {  // the caller does not take the answer, or an error
      context_.TryCancel();
    } else {
      Finish(status);
    }
  }

 private:
  void Send(const absl::StatusOr<Reply>& reply) {
    if (!reply.ok()) {
      const grpc::Status status = ToGrpcStatus(reply.status());
      if (!std::exchange(is_counted_, true)) {  // Send may come again if it throws below
        method_.calls.observer.OnEnd(RecordOf(context_, method_.name, arrival_, reply.status()));
      }
      AddRefusalTrailers(reply.status(), context_);
      on_finish_.ArmFor([&](void* tag) { stream_.Finish(status, tag); });
      return;
    }
    grpc::ByteBuffer message;
    bool is_own = false;
    const grpc::Status status =
        grpc::SerializationTraits<Reply>::Serialize(*reply, &message, &is_own);
    is_sending_ = true;
    const bool has_unit = sending_.BeginAnswer(this->weak_from_this(),
                                               static_cast<int64_t>(message.Length()), Holder());
    const std::shared_ptr<TypedCall> self = this->shared_from_this();  // it may end at once
    on_finish_.ArmFor(
        [&](void* tag) { stream_.WriteAndFinish(message, grpc::WriteOptions(), status, tag); });
    if (!has_unit) {
      context_.TryCancel();
    }
  }

  void LeaveAdmission() {
    if (std::exchange(is_admitted_, false)) {
      method_.calls.admission.Leave();
    }
  }

  void OnRequest(bool ok) {
    if (!ok) {
      on_done_.Disarm();
      return;
    }
    PostWithRetries([this] { Post(method_); });
    method_.calls.access.CountCall(context_);
    arrival_ = std::chrono::steady_clock::now();
    absl::StatusOr<Caller> caller =
        method_.calls.access.Admit(context_, method_.right, method_.name);
    if (!caller.ok()) {
      Finish(caller.status());
      return;
    }
    caller_ = *std::move(caller);
    is_admitted_ = method_.is_admitted && method_.calls.admission.TryEnter();
    if (method_.is_admitted && !is_admitted_) {
      Finish(Draining());
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
      method_.calls.access.CountRequest(context_, method_.right);
    }
    const absl::Status status =
        ok ? ReadSmallMessage(context_, message_, MaxMessageBytes(method_.right), *request_)
           : absl::InvalidArgumentError(absl::StrCat("expected a message ",
                                                     Request::descriptor()->full_name(),
                                                     ", found the end of the call"));
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
  void OnFinish(bool) {
    sending_.End();
    LeaveAdmission();
  }

  const Method& method_;
  const Visit visit_;
  Reception reception_;
  /// The time in which the caller takes the answer counts like the time in which a request arrives:
  /// otherwise a caller that takes no answer would hold the call for ever.
  Reception sending_;
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
  std::atomic<bool> is_sending_ = false;
  bool is_counted_ = false;
  std::atomic<bool> is_cancelled_ = false;
};

/// The methods of a service that TypedCalls answer; outlives the calls.
template <typename Service>
class TypedMethods {
 public:
  /// `posted_calls` is the number of calls of each method that wait for clients.
  TypedMethods(Service& service, const CallEnvironment& calls, int posted_calls)
      : service_(service), calls_(calls), posted_calls_(posted_calls) {}

  /// Adds a method that is answered at once: see TypedCall::AtOnce.
  template <typename Request, typename Reply, typename Answer>
  void Add(const char* name, Right right, Answer answer) {
    using Call = TypedCall<Service, Request, Reply>;
    AddMethod<Call>({service_, name, right, Call::AtOnce(std::move(answer)), calls_},
                    posted_calls_);
  }
  /// Adds a method for administrators, which is answered at any time after `begin`.
  template <typename Call, typename Begin>
  void AddForAdmins(const char* name, Begin begin) {
    AddMethod<Call>({service_, name, Right::kAdmin, std::move(begin), calls_, true},
                    kPostedAdminCalls);
  }

  /// Posts the first calls. REQUIRES: the server has started. Called once.
  void Start() const {
    for (const auto& start : starters_) {
      start();
    }
  }

 private:
  // Two suffice, since administrators' calls are rare.
  static constexpr int kPostedAdminCalls = 2;

  template <typename Call>
  void AddMethod(typename Call::Method method, int posted_calls) {
    service_.Serve(method.name);
    starters_.push_back(
        [posted_calls, shared = std::make_shared<const typename Call::Method>(std::move(method))] {
          for (int i = 0; i < posted_calls; ++i) {
            Call::Post(*shared);
          }
        });
  }

  Service& service_;
  const CallEnvironment& calls_;
  const int posted_calls_;
  /// Functions that begin to serve a method, and own it.
  std::vector<std::function<void()>> starters_;
};

}  // namespace attention
