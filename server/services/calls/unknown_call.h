// Calls of unknown methods. (Without this, a gRPC server that has no synchronous methods leaves
// them waiting until their deadline.)
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <cstdint>
#include <memory>

#include "server/scheduling/gate.h"
#include "server/security/access.h"
#include "server/services/calls/completion_threads.h"

namespace attention {

class UnknownCall : public std::enable_shared_from_this<UnknownCall> {
 public:
  /// The parts that the calls use; they outlive the calls.
  struct Method {
    grpc::AsyncGenericService& service;
    grpc::ServerCompletionQueue* queue;
    Gate& live_calls;
    const Access& access;
  };

  /// Waits for one call; each call that arrives posts its successor.
  static void Post(const Method& method);
  /// Returns the number of calls in this process.
  static int64_t count();
  explicit UnknownCall(const Method& method) : method_(method), visit_(method.live_calls) {}

  void OnFailure(const absl::Status&) noexcept { context_.TryCancel(); }

 private:
  void OnRequest(bool ok);
  void OnFinish(bool) {}

  const Method method_;
  const Visit visit_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  CallTag<UnknownCall> on_request_{this, &UnknownCall::OnRequest};
  CallTag<UnknownCall> on_finish_{this, &UnknownCall::OnFinish};
};

}  // namespace attention
