#include "server/services/duplex_call.h"

#include <chrono>
#include <utility>

#include "proto/codec/status.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

// Of one call: enough that a client need not wait for answers, few enough that it leaves room for
// others.
constexpr int kMaxUnderWay = 64;
constexpr int64_t kMaxUnsentBytes = int64_t{4} << 20;
// Of requests that wait for each other, which the queue does not count.
constexpr int64_t kMaxUnderWayBytes = int64_t{16} << 20;

}  // namespace

DuplexCall::DuplexCall(const CallEnvironment& environment, const char* rpc)
    : environment_(environment), rpc_(rpc), visit_(environment.live_calls) {
  context_.AsyncNotifyWhenDone(static_cast<CompletionTag*>(&on_done_));
}

void DuplexCall::OnRequest(bool ok) {
  if (!ok) {
    on_done_.Disarm();
    return;
  }
  PostNext();
  deadline_ = SteadyDeadline(context_, steady_clock::now());
  metadata_ = IdentifyCall(context_);
  context_.AddTrailingMetadata("x-request-id", metadata_.request_id);
  const absl::Status status = ReadMetadata(context_, environment_.access, rpc_, metadata_);
  if (!status.ok()) {
    Refuse(status);
    return;
  }
  Advance();
}

void DuplexCall::Refuse(const absl::Status& status) {
  RequestRecord record = RecordOf(context_, rpc_, steady_clock::now(), status);
  Record(metadata_, record);
  environment_.observer.OnEnd(std::move(record));
  Close(status);
}

std::function<void()> DuplexCall::GiveUp() {
  return [self = weak_from_this()] {
    if (const std::shared_ptr<DuplexCall> call = self.lock()) {
      call->is_given_up_ = true;
      call->context_.TryCancel();
    }
  };
}

bool DuplexCall::MayRead() const {
  return !is_reading_ && !has_read_all_ && !closed_.has_value() && under_way_ < kMaxUnderWay &&
         under_way_bytes_ < kMaxUnderWayBytes && unsent_bytes_ < kMaxUnsentBytes;
}

void DuplexCall::OnRead(bool ok) {
  // A token that was taken back or has expired ends the call.
  const absl::Status right =
      ok ? environment_.access.Admit(context_, Right::kCall, rpc_).status() : absl::OkStatus();
  const bool is_admitted = ok && right.ok() && environment_.admission.TryEnter();
  bool is_taken = false;
  const grpc::ByteBuffer message = message_;
  message_.Clear();
  {
    MutexLock lock(mutex_);
    has_read_all_ = !ok;
    is_taken = is_admitted && !closed_.has_value();
    under_way_ += is_taken ? 1 : 0;
    under_way_bytes_ += is_taken ? static_cast<int64_t>(message.Length()) : 0;
  }
  if (is_taken) {
    const Hold hold(*this);
    OnMessage(message, steady_clock::now());
  } else if (is_admitted) {
    environment_.admission.Leave();
  } else if (ok) {
    Refuse(right.ok() ? absl::UnavailableError("the server is draining") : right);
  }
  {
    // Not before: the next message must not pass this one.
    MutexLock lock(mutex_);
    is_reading_ = false;
  }
  Advance();
}

void DuplexCall::Send(const grpc::ByteBuffer& message, std::optional<RequestRecord> ended) {
  const auto size_bytes = static_cast<int64_t>(message.Length());
  {
    MutexLock lock(mutex_);
    unsent_bytes_ += size_bytes;
    queue_.push_back({message, std::move(ended), steady_clock::now()});
  }
  Advance();
}

void DuplexCall::EndWithoutMessage(RequestRecord ended) {
  Outgoing outgoing = {grpc::ByteBuffer(), std::move(ended), steady_clock::now()};
  EndRequest(outgoing);
  Advance();
}

void DuplexCall::Close(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    closed_ = closed_.has_value() ? closed_ : status;
  }
  Advance();
}

void DuplexCall::EndRequest(Outgoing& outgoing) {
  if (!outgoing.ended.has_value()) {
    return;
  }
  RequestRecord& record = *outgoing.ended;
  {
    MutexLock lock(mutex_);
    under_way_bytes_ -= record.request_bytes;
  }
  const std::chrono::nanoseconds sent = steady_clock::now() - outgoing.queued;
  record.send_ns = sent.count();
  Record(metadata_, record);
  if (is_given_up_ && record.status.ok()) {
    record.status = NobodyTakesIt();
  }
  RecordPeer(context_, record);
  environment_.observer.OnEnd(std::move(record));
  environment_.admission.Leave();
  ChangeUnderWay(-1);
}

void DuplexCall::ChangeUnderWay(int change) {
  MutexLock lock(mutex_);
  under_way_ += change;
}

void DuplexCall::DropQueue() {
  std::deque<Outgoing> dropped;
  {
    MutexLock lock(mutex_);
    dropped.swap(queue_);
    unsent_bytes_ = 0;
  }
  for (Outgoing& outgoing : dropped) {
    EndRequest(outgoing);
  }
}

void DuplexCall::OnWritten(bool ok) {
  is_cancelled_ = is_cancelled_ || !ok;
  const auto size_bytes = static_cast<int64_t>(writing_.bytes.Length());
  Outgoing written = std::exchange(writing_, Outgoing());
  {
    MutexLock lock(mutex_);
    is_writing_ = false;
    unsent_bytes_ -= size_bytes;
  }
  EndRequest(written);
  Advance();
}

void DuplexCall::OnDone(bool) {
  if (context_.IsCancelled()) {
    is_cancelled_ = true;
    Advance();
  }
}

// Whether the client is gone is certain only now: a read that ends says no more than that it ended.
void DuplexCall::OnFinish(bool ok) { OnEnd(ok && is_closed_by_client_ && !is_cancelled_); }

void DuplexCall::Advance() {
  if (is_cancelled_) {
    DropQueue();
  }
  bool reads = false;
  bool writes = false;
  std::optional<absl::Status> end;
  {
    MutexLock lock(mutex_);
    if (has_ended_) {
      return;
    }
    reads = MayRead() && !is_cancelled_;
    is_reading_ = is_reading_ || reads;
    writes = !is_writing_ && !queue_.empty();
    if (writes) {
      writing_ = std::move(queue_.front());
      queue_.pop_front();
      is_writing_ = true;
    }
    // A client that hears of the end need not have ended its requests: that read fails then.
    const bool is_over = closed_.has_value() || (!is_reading_ && (has_read_all_ || is_cancelled_));
    if (is_over && under_way_ == 0 && !is_writing_ && queue_.empty()) {
      has_ended_ = true;
      is_closed_by_client_ = has_read_all_;
      end = closed_.value_or(absl::OkStatus());
    }
  }
  if (reads) {
    stream_.Read(&message_, on_read_.Arm());
  }
  if (writes) {
    environment_.observer.OnSend(static_cast<int64_t>(writing_.bytes.Length()));
    stream_.Write(writing_.bytes, on_written_.Arm());
  }
  if (end.has_value()) {
    AddRefusalTrailers(*end, context_);
    stream_.Finish(ToGrpcStatus(*end), on_finish_.Arm());
  }
}

}  // namespace attention
