#include "client/lib/blocking_call.h"

#include <chrono>

#include "proto/codec/status.h"

namespace attention {
namespace {

void SetDeadline(absl::Duration timeout, grpc::ClientContext& context) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
}

void Drain(grpc::CompletionQueue& queue) {
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
}

}  // namespace

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
    return ToAbslStatus(status);
  }
  return reply;
}

BlockingStream::BlockingStream(grpc::GenericStub& stub, const std::string& method,
                               const grpc::ByteBuffer& request, absl::Duration timeout) {
  SetDeadline(timeout, context_);
  stream_ = stub.PrepareCall(&context_, method, &queue_);
  stream_->StartCall(this);
  is_open_ = Wait();
  if (is_open_) {
    stream_->WriteLast(request, grpc::WriteOptions(), this);
    is_open_ = Wait();
  }
}

BlockingStream::~BlockingStream() {
  if (!is_finished_) {
    context_.TryCancel();
    Finish().IgnoreError();
  }
  Drain(queue_);
}

bool BlockingStream::Wait() {
  void* tag = nullptr;
  bool ok = false;
  return queue_.Next(&tag, &ok) && ok;
}

bool BlockingStream::Read(grpc::ByteBuffer& message) {
  if (is_open_) {
    stream_->Read(&message, this);
    is_open_ = Wait();
  }
  return is_open_;
}

absl::Status BlockingStream::Finish() {
  grpc::Status status;
  stream_->Finish(&status, this);
  Wait();
  is_finished_ = true;
  return ToAbslStatus(status);
}

BlockingDuplex::BlockingDuplex(grpc::GenericStub& stub, const std::string& method,
                               absl::Duration timeout) {
  SetDeadline(timeout, context_);
  stream_ = stub.PrepareCall(&context_, method, &queue_);
}

BlockingDuplex::~BlockingDuplex() {
  if (is_started_ && !is_finished_) {
    context_.TryCancel();
    Finish(absl::InfiniteFuture()).IgnoreError();
  }
  Drain(queue_);
}

bool BlockingDuplex::Wait(absl::Time deadline) {
  void* tag = nullptr;
  bool ok = false;
  if (queue_.AsyncNext(&tag, &ok, absl::ToChronoTime(deadline)) != grpc::CompletionQueue::TIMEOUT) {
    return ok;
  }
  // The event that was waited for comes soon now.
  timed_out_ = true;
  context_.TryCancel();
  queue_.Next(&tag, &ok);
  return false;
}

bool BlockingDuplex::Write(const grpc::ByteBuffer& message, absl::Time deadline) {
  if (!is_started_) {
    is_started_ = true;
    stream_->StartCall(this);
    if (!Wait(deadline)) {
      return false;
    }
  }
  stream_->Write(message, this);
  return Wait(deadline);
}

bool BlockingDuplex::Read(grpc::ByteBuffer& message, absl::Time deadline) {
  stream_->Read(&message, this);
  return Wait(deadline);
}

void BlockingDuplex::EndRequests(absl::Time deadline) {
  stream_->WritesDone(this);
  Wait(deadline);
}

absl::Status BlockingDuplex::Finish(absl::Time deadline) {
  if (!is_finished_) {
    grpc::Status status;
    stream_->Finish(&status, this);
    Wait(deadline);
    is_finished_ = true;
    status_ = ToAbslStatus(status);
  }
  return status_;
}

}  // namespace attention
