#include "server/services/unknown_call.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/codec/status.h"

namespace attention {

void UnknownCall::Post(const Method& method) {
  const auto call = std::make_shared<UnknownCall>(method);
  method.service.RequestCall(&call->context_, &call->stream_, method.queue, method.queue,
                             call->on_request_.Arm());
}

void UnknownCall::OnRequest(bool ok) {
  if (!ok) {
    return;
  }
  Post(method_);
  stream_.Finish(ToGrpcStatus(absl::UnimplementedError(
                     absl::StrCat(context_.method(), ": this listener has no such method"))),
                 on_finish_.Arm());
}

}  // namespace attention
