#include "server/services/calls/duplex_call.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/inflate.h"
#include "proto/codec/status.h"
#include "server/scheduling/refusal.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

// The maximum number of running requests of a call: enough that a client need not wait for answers,
// and few enough to leave room for others.
constexpr int kMaxRunning = 64;
// The maximum number, and bytes, of a call's answers that wait to be sent. No request is read
// beyond them. A client that reads nothing could otherwise let many streams wait with many refusals
// each, which end all at once.
constexpr int kMaxUnsent = 8;
constexpr int64_t kMaxUnsentBytes = int64_t{4} << 20;
// The maximum bytes of a call's running requests. Those of them that wait for others share a budget
// with all calls (StreamSession::ReserveWaiting).
constexpr int64_t kMaxRunningBytes = int64_t{16} << 20;

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
  PostWithRetries([this] { PostNext(); });
  environment_.access.CountCall(context_);
  const TimePoint arrival = steady_clock::now();
  cancellation_.Begin(arrival);
  deadline_ = SteadyDeadline(context_, arrival);
  metadata_ = IdentifyCall(context_);
  context_.AddTrailingMetadata("x-request-id", metadata_.request_id);
  const absl::Status status = ReadMetadata(context_, environment_.access, metadata_);
  if (!status.ok()) {
    if (!absl::IsUnauthenticated(status)) {
      environment_.access.CountRequest(context_, Right::kCall);  // as AttendCall does
    }
    Refuse(status);
    return;
  }
  WatchIdleness();
  Advance();
}

void DuplexCall::WatchIdleness() {
  IdleWatch& idle = environment_.idle;
  {
    MutexLock lock(mutex_);
    last_activity_ = steady_clock::now();
  }
  if (idle.is_on()) {
    context_.AddInitialMetadata("attend-session-idle-timeout-ms",
                                absl::StrCat(absl::ToInt64Milliseconds(idle.timeout())));
  }
  idle_registration_.Register(idle, weak_from_this());
}

void DuplexCall::EndWhenAnswered(const absl::Status& reason) noexcept {
  {
    MutexLock lock(mutex_);
    if (closed_.has_value() || has_ended_) {
      return;
    }
  }
  Close(reason);
}

void DuplexCall::EndIfIdleSince(TimePoint before, const absl::Status& reason) noexcept {
  bool is_unread = false;
  {
    MutexLock lock(mutex_);
    // Close waits for running requests, of which the last may have been answered just now.
    const bool is_idle = running_ == unsent_ && last_activity_ <= before;
    // One that was closed ends with its last answer, which a client may never take.
    const bool is_ending = has_ended_ || (closed_.has_value() && unsent_ == 0);
    if (!is_idle || is_ending) {
      return;
    }
    is_unread = unsent_ > 0;
  }
  if (is_unread) {
    is_unread_ = true;
    context_.TryCancel();
    return;
  }
  const absl::Status refused = ContainVoid("ending an idle stream", [&] { Refuse(reason); });
  if (!refused.ok()) {
    Close(refused);
  }
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

void DuplexCall::EndForAnother() noexcept {
  is_taken_over_ = true;
  ContainVoid("ending the call", [&] { context_.TryCancel(); }).IgnoreError();
}

void DuplexCall::PauseReading(bool is_paused) {
  MutexLock lock(mutex_);
  is_paused_ = is_paused;
}

bool DuplexCall::MayRead() const {
  return !is_reading_ && !is_paused_ && !has_read_all_ && !closed_.has_value() &&
         running_ < kMaxRunning && running_bytes_ < kMaxRunningBytes && unsent_ < kMaxUnsent &&
         unsent_bytes_ < kMaxUnsentBytes;
}

absl::Status DuplexCall::AdmitMessage(const grpc::ByteBuffer& message) {
  RETURN_IF_ERROR(CheckEncoding(context_, message));
  message_metadata_ = metadata_;
  RETURN_IF_ERROR(ReadMetadata(context_, environment_.access, message_metadata_));
  if (message_metadata_.caller.tenant != metadata_.caller.tenant) {
    return absl::UnauthenticatedError(
        "authorization: expected a token of the tenant who made the call, found one that now "
        "belongs to another tenant");
  }
  return environment_.admission.TryEnter() ? absl::OkStatus() : Draining();
}

void DuplexCall::OnRead(bool ok) {
  const grpc::ByteBuffer message = message_;
  message_.Clear();
  if (ok && !std::exchange(has_had_request_, true)) {
    environment_.access.CountRequest(context_, Right::kCall);
  }
  const absl::Status status = ok ? AdmitMessage(message) : absl::OkStatus();
  const bool is_admitted = ok && status.ok();
  bool is_taken = false;
  {
    MutexLock lock(mutex_);
    has_read_all_ = !ok;
    last_activity_ = steady_clock::now();
    is_taken = is_admitted && !closed_.has_value();
    running_ += is_taken ? 1 : 0;
    running_bytes_ += is_taken ? static_cast<int64_t>(message.Length()) : 0;
  }
  if (is_taken) {
    Take(message);
    return;
  }
  if (is_admitted) {
    environment_.admission.Leave();
  } else if (ok) {
    Refuse(status);
  }
  EndRead();
}

void DuplexCall::Take(const grpc::ByteBuffer& message) {
  const TimePoint arrival = steady_clock::now();
  const absl::StatusOr<int64_t> cost =
      Contain("the request", [&] { return ReserveIfLarge(message); });
  if (!cost.ok()) {
    RefuseRoom(message, arrival, cost.status());
    return;
  }
  if (held_ == nullptr) {
    TakeNow(message, arrival);
    return;
  }
  RunOnSideThread(*cost, [this, message, arrival] {
    held_.reset();
    TakeNow(message, arrival);
  });
}

absl::StatusOr<int64_t> DuplexCall::ReserveIfLarge(const grpc::ByteBuffer& message) {
  const int64_t inflating = InflatingCost(message, environment_.unary_limit.max_bytes);
  const int64_t cost = inflating > 0 ? inflating : PlanningCost(message);
  if (cost > kSmallPlanBytes) {
    ASSIGN_OR_RETURN(held_, environment_.executor.Reserve(message_metadata_.request_class,
                                                          static_cast<int64_t>(message.Length())));
  }
  return cost;
}

void DuplexCall::RefuseRoom(const grpc::ByteBuffer& message, TimePoint arrival,
                            const absl::Status& status) {
  {
    const EndDelay delay(*this);
    if (IsCompressed(message) || !OnMessageWithoutRoom(message, arrival, status)) {
      RefuseMessage(message, arrival, status);
    }
  }
  EndRead();
}

// Handles the message. The next one is read afterwards, so that it does not pass this one.
void DuplexCall::TakeNow(const grpc::ByteBuffer& message, TimePoint arrival) {
  {
    const EndDelay delay(*this);
    const absl::StatusOr<grpc::ByteBuffer> inflated =
        Contain("the request", [&] { return InflateOnAccount(message); });
    if (inflated.ok()) {
      OnMessage(*inflated, arrival);
    } else {
      RefuseMessage(message, arrival, inflated.status());
    }
  }
  EndRead();
}

absl::StatusOr<grpc::ByteBuffer> DuplexCall::InflateOnAccount(const grpc::ByteBuffer& message) {
  if (!IsCompressed(message)) {
    return message;
  }
  PlanAccount account(environment_.executor, AsPlanCaller(message_metadata_.request_class));
  ASSIGN_OR_RETURN(grpc::ByteBuffer inflated,
                   InflateRequest(message, environment_.unary_limit.max_bytes, account.terms()));
  MutexLock lock(mutex_);
  running_bytes_ +=
      static_cast<int64_t>(inflated.Length()) - static_cast<int64_t>(message.Length());
  return inflated;
}

void DuplexCall::RefuseMessage(const grpc::ByteBuffer& message, TimePoint arrival,
                               const absl::Status& status) {
  RequestRecord record;
  record.rpc = rpc_;
  record.arrival = arrival;
  record.request_bytes = static_cast<int64_t>(message.Length());
  record.status = status;
  EndWithoutMessage(std::move(record));
  Close(status);
}

void DuplexCall::EndRead() {
  {
    MutexLock lock(mutex_);
    is_reading_ = false;
  }
  Advance();
}

void DuplexCall::GiveToSideThread(int64_t cost, std::function<void()> run) {
  environment_.executor.side().Run(
      {.owner = OwnerOf(context_, metadata_), .cost = cost, .run = std::move(run)});
}

PlanCaller DuplexCall::AsPlanCaller(const RequestClass& request_class) {
  return {.request_class = request_class, .deadline = deadline_, .is_cancelled = [this] {
            return is_cancelled();
          }};
}

}  // namespace attention
