#include "client/lib/blocking_call.h"

#include <chrono>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "client/lib/retry_policy.h"
#include "proto/codec/status.h"

namespace attention {
namespace {

constexpr absl::Duration kMaxTimeout = absl::Hours(24 * 365);

void SetDeadline(absl::Duration timeout, grpc::ClientContext& context) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
}

/// Returns the status of a call, with the pushback of the server as a payload.
absl::Status ToStatus(const grpc::Status& status, const grpc::ClientContext& context) {
  absl::Status converted = ToAbslStatus(status);
  const auto& trailers = context.GetServerTrailingMetadata();
  if (const auto found = trailers.find(kPushback); !status.ok() && found != trailers.end()) {
    converted.SetPayload(kPushback,
                         absl::Cord(absl::string_view(found->second.data(), found->second.size())));
  }
  return converted;
}

void Drain(grpc::CompletionQueue& queue) {
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
}

}  // namespace

absl::Status CheckTimeout(absl::Duration timeout, const char* name) {
  if (timeout <= absl::ZeroDuration() || timeout > kMaxTimeout) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": expected a positive duration of at most ", absl::FormatDuration(kMaxTimeout),
        " (a year), found ", absl::FormatDuration(timeout)));
  }
  return absl::OkStatus();
}

absl::StatusOr<grpc::ByteBuffer> CallUnary(grpc::GenericStub& stub, const std::string& method,
                                           const grpc::ByteBuffer& request,
                                           absl::Duration timeout) {
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  SetDeadline(timeout, context);
  grpc::ByteBuffer reply;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  call->Finish(&reply, &status, &status);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  Drain(queue);
  if (!status.ok()) {
    return ToStatus(status, context);
  }
  return reply;
}

BlockingStream::BlockingStream(grpc::GenericStub& stub, const std::string& method,
                               absl::Duration timeout) {
  SetDeadline(timeout, context_);
  stream_ = stub.PrepareCall(&context_, method, &queue_);
}

BlockingStream::~BlockingStream() {
  if (is_started_ && !is_finished_) {
    context_.TryCancel();
    Finish(absl::InfiniteFuture()).IgnoreError();
  }
  Drain(queue_);
}

bool BlockingStream::Wait(absl::Time deadline) {
  void* tag = nullptr;
  bool ok = false;
  if (queue_.AsyncNext(&tag, &ok, absl::ToChronoTime(deadline)) != grpc::CompletionQueue::TIMEOUT) {
    return ok;
  }
  // The cancelled operation now ends soon.
  timed_out_ = true;
  context_.TryCancel();
  queue_.Next(&tag, &ok);
  return false;
}

bool BlockingStream::Start(absl::Time deadline) {
  if (is_started_) {
    return true;
  }
  is_started_ = true;
  stream_->StartCall(this);
  return Wait(deadline);
}

bool BlockingStream::Write(const grpc::ByteBuffer& message, absl::Time deadline) {
  if (!Start(deadline)) {
    return false;
  }
  stream_->Write(message, this);
  return Wait(deadline);
}

bool BlockingStream::WriteLast(const grpc::ByteBuffer& message) {
  if (!Start(absl::InfiniteFuture())) {
    return false;
  }
  stream_->WriteLast(message, grpc::WriteOptions(), this);
  return Wait(absl::InfiniteFuture());
}

bool BlockingStream::Read(grpc::ByteBuffer& message, absl::Time deadline) {
  stream_->Read(&message, this);
  return Wait(deadline);
}

void BlockingStream::EndRequests(absl::Time deadline) {
  stream_->WritesDone(this);
  Wait(deadline);
}

absl::Status BlockingStream::Finish(absl::Time deadline) {
  if (!is_finished_) {
    grpc::Status status;
    stream_->Finish(&status, this);
    Wait(deadline);
    is_finished_ = true;
    status_ = ToStatus(status, context_);
  }
  return status_;
}

}  // namespace attention
