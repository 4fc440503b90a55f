// A typed unary call that is answered later, by another thread; meanwhile it holds none.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/codec/status.h"
#include "server/scheduling/gate.h"
#include "server/services/completion_threads.h"

namespace attention {

template <typename Service, typename Request, typename Reply>
class DeferredCall : public std::enable_shared_from_this<DeferredCall<Service, Request, Reply>> {
 public:
  /// One method of one service, shared by its calls. All outlive them.
  struct Method {
    Service& service;
    void (Service::*request)(grpc::ServerContext*, Request*,
                             grpc::ServerAsyncResponseWriter<Reply>*, grpc::CompletionQueue*,
                             grpc::ServerCompletionQueue*, void*);
    /// Does not block; sees to it that Finish is called once, at any time, by any thread.
    std::function<void(std::shared_ptr<DeferredCall> call)> begin;
    grpc::ServerCompletionQueue* queue;
    /// Closed when the server drains; calls that are not yet answered are inside.
    Gate& admission;
    Gate& live_calls;
  };

  /// Waits for one call; each call that comes posts its successor.
  static void Post(const Method& method) {
    const auto call = std::make_shared<DeferredCall>(method);
    call->on_done_.Arm();
    (method.service.*method.request)(&call->context_, &call->request_, &call->writer_, method.queue,
                                     method.queue, call->on_request_.Arm());
  }

  explicit DeferredCall(const Method& method) : method_(method), visit_(method.live_calls) {
    context_.AsyncNotifyWhenDone(static_cast<CompletionTag*>(&on_done_));
  }

  const Request& request() const { return request_; }
  /// Nobody waits for the answer: cancelled, past its deadline, or gone.
  bool is_cancelled() const { return is_cancelled_; }

  void Finish(const absl::StatusOr<Reply>& reply) {
    if (reply.ok()) {
      writer_.Finish(*reply, grpc::Status::OK, on_finish_.Arm());
    } else {
      writer_.FinishWithError(ToGrpcStatus(reply.status()), on_finish_.Arm());
    }
  }

 private:
  void OnRequest(bool ok) {
    if (!ok) {
      on_done_.Disarm();
      return;
    }
    Post(method_);
    is_admitted_ = method_.admission.TryEnter();
    if (is_admitted_) {
      method_.begin(this->shared_from_this());
    } else {
      Finish(absl::UnavailableError("the server is draining"));
    }
  }
  void OnDone(bool) { is_cancelled_ = is_cancelled_ || context_.IsCancelled(); }
  void OnFinish(bool) {
    if (is_admitted_) {
      method_.admission.Leave();
    }
  }

  const Method& method_;
  const Visit visit_;
  grpc::ServerContext context_;
  Request request_;
  grpc::ServerAsyncResponseWriter<Reply> writer_{&context_};
  CallTag<DeferredCall> on_request_{this, &DeferredCall::OnRequest};
  CallTag<DeferredCall> on_done_{this, &DeferredCall::OnDone};
  CallTag<DeferredCall> on_finish_{this, &DeferredCall::OnFinish};
  bool is_admitted_ = false;
  std::atomic<bool> is_cancelled_ = false;
};

}  // namespace attention
