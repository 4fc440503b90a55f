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

}  // namespace attention
