// The answers of a DuplexCall, and its end.
#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/codec/status.h"
#include "server/services/calls/duplex_call.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

}  // namespace

void DuplexCall::Send(const grpc::ByteBuffer& message, std::optional<RequestRecord> ended) {
  Outgoing outgoing = {message, std::move(ended), steady_clock::now()};
  const absl::Status queued = ContainVoid("sending an answer", [&] {
    MutexLock lock(mutex_);
    queue_.push_back(std::move(outgoing));
    unsent_ += queue_.back().ended.has_value() ? 1 : 0;
    unsent_bytes_ += static_cast<int64_t>(message.Length());
    last_activity_ = steady_clock::now();
  });
  if (queued.ok()) {
    Advance();
    return;
  }
  if (outgoing.ended.has_value()) {
    outgoing.ended->status = queued;
  }
  EndRequest(outgoing, /*is_sent=*/false);
  Close(queued);
}

void DuplexCall::EndWithoutMessage(RequestRecord ended) {
  Outgoing outgoing = {grpc::ByteBuffer(), std::move(ended), steady_clock::now()};
  EndRequest(outgoing, /*is_sent=*/true);
  Advance();
}

void DuplexCall::Close(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    closed_ = closed_.has_value() ? closed_ : status;
  }
  Advance();
}

void DuplexCall::EndRequest(Outgoing& outgoing, bool is_sent) {
  if (!outgoing.ended.has_value()) {
    return;
  }
  RequestRecord& record = *outgoing.ended;
  {
    MutexLock lock(mutex_);
    running_bytes_ -= record.request_bytes;
    last_activity_ = steady_clock::now();
  }
  RunLogged("recording the call", [&] {
    const std::chrono::nanoseconds sent = steady_clock::now() - outgoing.queued;
    record.send_ns = sent.count();
    Record(metadata_, record);
    if (is_given_up_ && record.status.ok()) {
      record.status = ReplyNotRead();
    } else if (is_taken_over_ && record.status.ok()) {
      record.status = absl::CancelledError("another stream resumed the session");
    } else if (is_unread_ && record.status.ok()) {
      record.status =
          absl::CancelledError("the caller took no answer in time (--session-idle-timeout)");
    } else if (!is_sent && record.status.ok()) {
      record.status = absl::CancelledError("the caller cancelled before the answer was sent");
    }
    record.status = cancellation_.Explain(record.status);
    environment_.observer.OnEnd(std::move(record));
  });
  environment_.admission.Leave();
  AddRunning(-1);
}

void DuplexCall::AddRunning(int change) {
  MutexLock lock(mutex_);
  running_ += change;
}

void DuplexCall::DropQueue() {
  std::list<Outgoing> dropped;  // unlike a deque, an empty list allocates nothing
  {
    MutexLock lock(mutex_);
    dropped.swap(queue_);
    for (const Outgoing& outgoing : dropped) {
      unsent_bytes_ -= static_cast<int64_t>(outgoing.bytes.Length());
      unsent_ -= outgoing.ended.has_value() ? 1 : 0;
    }
  }
  for (Outgoing& outgoing : dropped) {
    EndRequest(outgoing, /*is_sent=*/false);
  }
}

void DuplexCall::OnWritten(bool ok) {
  if (!ok) {
    cancellation_.Set(context_);
  }
  const auto size_bytes = static_cast<int64_t>(writing_.bytes.Length());
  Outgoing written = std::exchange(writing_, Outgoing());
  {
    MutexLock lock(mutex_);
    is_writing_ = false;
    unsent_bytes_ -= size_bytes;
    unsent_ -= written.ended.has_value() ? 1 : 0;
    last_activity_ = steady_clock::now();
  }
  EndRequest(written, ok);
  Advance();
}

void DuplexCall::OnDone(bool) {
  if (context_.IsCancelled()) {
    cancellation_.Set(context_);
    Advance();
  }
  EndWhenBothAreKnown();
}

void DuplexCall::OnFinish(bool ok) {
  is_finished_ = ok;
  EndWhenBothAreKnown();
}

// Only OnDone shows whether the client is gone; the results of Read and Finish do not. OnDone and
// OnFinish come in either order, on any two threads.
void DuplexCall::EndWhenBothAreKnown() {
  if (ends_known_.fetch_add(1) == 1) {
    OnEnd(is_finished_ && is_closed_by_client_ && !is_cancelled());
  }
}

void DuplexCall::Advance() {
  if (is_cancelled()) {
    DropQueue();
  }
  const std::optional<Steps> steps = NextSteps();
  if (!steps.has_value()) {
    return;
  }
  const absl::Status started = ContainVoid("the call", [&] {
    if (steps->reads) {
      on_read_.ArmFor([&](void* tag) { stream_.Read(&message_, tag); });
    }
  });
  if (!started.ok()) {
    {
      MutexLock lock(mutex_);
      is_reading_ = false;
    }
    Abandon(started);
  }
  if (steps->writes) {
    StartWrite();
  }
  if (steps->end.has_value()) {
    StartEnd(*steps->end);
  }
}

std::optional<DuplexCall::Steps> DuplexCall::NextSteps() {
  MutexLock lock(mutex_);
  if (has_ended_) {
    return std::nullopt;
  }
  Steps steps;
  steps.reads = MayRead() && !is_cancelled();
  is_reading_ = is_reading_ || steps.reads;
  steps.writes = !is_writing_ && !queue_.empty();
  if (steps.writes) {
    writing_ = std::move(queue_.front());
    queue_.pop_front();
    is_writing_ = true;
  }
  // The call may end while a read waits for the client, which then fails.
  const bool is_over = closed_.has_value() || (!is_reading_ && (has_read_all_ || is_cancelled()));
  if (is_over && running_ == 0 && !is_writing_ && queue_.empty()) {
    has_ended_ = true;
    is_closed_by_client_ = has_read_all_;
    steps.end = closed_.value_or(absl::OkStatus());
  }
  return steps;
}

void DuplexCall::StartWrite() {
  environment_.observer.OnSend(static_cast<int64_t>(writing_.bytes.Length()));
  const absl::Status started = ContainVoid("the call", [&] {
    on_written_.ArmFor([&](void* tag) { stream_.Write(writing_.bytes, tag); });
  });
  if (!started.ok()) {
    Abandon(started);
    OnWritten(false);
  }
}

void DuplexCall::StartEnd(const absl::Status& status) {
  if (status.ok() && is_closed_by_client_) {
    OnAllAnswered();
  }
  const absl::Status started = ContainVoid("the call", [&] {
    AddRefusalTrailers(status, context_);
    const grpc::Status end = ToGrpcStatus(status);
    on_finish_.ArmFor([&](void* tag) { stream_.Finish(end, tag); });
  });
  if (!started.ok()) {
    Abandon(started);
    OnFinish(false);
  }
}

void DuplexCall::Abandon(const absl::Status& status) noexcept {
  cancellation_.Set(context_);
  LogFailure(status);
  ContainVoid("ending the call", [&] { context_.TryCancel(); }).IgnoreError();
}

// Called after an exception of OnRequest or OnRead, before there is a request; the other handlers
// contain theirs.
void DuplexCall::OnFailure(const absl::Status& status) noexcept {
  {
    MutexLock lock(mutex_);
    is_reading_ = false;
  }
  Close(status);
}

}  // namespace attention
