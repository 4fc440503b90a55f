// A typed unary call that is answered at once, on the completion thread.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/codec/status.h"
#include "server/scheduling/gate.h"
#include "server/services/completion_threads.h"

namespace attention {

template <typename Service, typename Request, typename Reply>
class UnaryCall : public std::enable_shared_from_this<UnaryCall<Service, Request, Reply>> {
 public:
  /// One method of one service, shared by its calls. All outlive them.
  struct Method {
    Service& service;
    void (Service::*request)(grpc::ServerContext*, Request*,
                             grpc::ServerAsyncResponseWriter<Reply>*, grpc::CompletionQueue*,
                             grpc::ServerCompletionQueue*, void*);
    std::function<absl::StatusOr<Reply>(const Request&)> answer;
    grpc::ServerCompletionQueue* queue;
    Gate& live_calls;
  };

  /// Waits for one call; each call that comes posts its successor.
  static void Post(const Method& method) {
    const auto call = std::make_shared<UnaryCall>(method);
    (method.service.*method.request)(&call->context_, &call->request_, &call->writer_, method.queue,
                                     method.queue, call->on_request_.Arm());
  }

  explicit UnaryCall(const Method& method) : method_(method), visit_(method.live_calls) {}

 private:
  void OnRequest(bool ok) {
    if (!ok) {
      return;
    }
    Post(method_);
    const absl::StatusOr<Reply> reply = method_.answer(request_);
    if (reply.ok()) {
      writer_.Finish(*reply, grpc::Status::OK, on_finish_.Arm());
    } else {
      writer_.FinishWithError(ToGrpcStatus(reply.status()), on_finish_.Arm());
    }
  }
  void OnFinish(bool) {}

  const Method& method_;
  const Visit visit_;
  grpc::ServerContext context_;
  Request request_;
  grpc::ServerAsyncResponseWriter<Reply> writer_{&context_};
  CallTag<UnaryCall> on_request_{this, &UnaryCall::OnRequest};
  CallTag<UnaryCall> on_finish_{this, &UnaryCall::OnFinish};
};

}  // namespace attention
