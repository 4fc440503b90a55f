#include "server/services/calls/unknown_call.h"

#include <atomic>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/codec/status.h"

namespace attention {
namespace {

std::atomic<int64_t> unknown_calls = 0;

}  // namespace

int64_t UnknownCall::count() { return unknown_calls; }

void UnknownCall::Post(const Method& method) {
  const auto call = std::make_shared<UnknownCall>(method);
  call->on_request_.ArmFor([&](void* tag) {
    method.service.RequestCall(&call->context_, &call->stream_, method.queue, method.queue, tag);
  });
}

void UnknownCall::OnRequest(bool ok) {
  if (!ok) {
    return;
  }
  ++unknown_calls;
  PostWithRetries([this] { Post(method_); });
  method_.access.CountCall(context_);
  const grpc::Status status = ToGrpcStatus(absl::UnimplementedError(
      absl::StrCat(context_.method(), ": this listener has no such method")));
  on_finish_.ArmFor([&](void* tag) { stream_.Finish(status, tag); });
}

}  // namespace attention
