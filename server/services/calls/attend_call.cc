#include "server/services/calls/attend_call.h"

#include <chrono>
#include <utility>

#include "core/runtime/status_macros.h"
#include "proto/codec/inflate.h"
#include "proto/codec/status.h"
#include "server/scheduling/refusal.h"
#include "server/security/access.h"
#include "server/services/plan/plan_prefix.h"
#include "server/services/reply/encode_reply.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

}  // namespace

AttendCall::AttendCall(const CallEnvironment& environment, std::string_view rpc, bool wants_rows)
    : environment_(environment),
      visit_(environment.live_calls),
      reception_(environment.receiving),
      wants_rows_(wants_rows) {
  record_.rpc = rpc;
  context_.AsyncNotifyWhenDone(static_cast<CompletionTag*>(&on_done_));
}

const ReplyLimit& AttendCall::limit() const {
  return wants_rows_ ? environment_.stream_limit : environment_.unary_limit;
}

void AttendCall::OnRequest(bool ok) {
  if (!ok) {
    on_done_.Disarm();
    return;
  }
  has_begun_ = true;
  record_.arrival = phase_start_ = steady_clock::now();
  cancellation_.Begin(record_.arrival);
  PostWithRetries([this] { PostNext(); });
  environment_.access.CountCall(context_);
  metadata_ = IdentifyCall(context_);
  is_admitted_ = environment_.admission.TryEnter();
  const absl::Status status = is_admitted_ ? CheckHeaders() : Draining();
  if (!status.ok()) {
    // Only a refused token counts as a call without work.
    if (!absl::IsUnauthenticated(status)) {
      environment_.access.CountRequest(context_, Right::kCall);
    }
    EndWith(status);
    return;
  }
  reception_.Begin(weak_from_this(), environment_.unary_limit.max_bytes);
  on_message_.ArmFor([&](void* tag) { stream_.Read(&request_, tag); });
}

absl::Status AttendCall::CheckHeaders() {
  deadline_ = SteadyDeadline(context_, record_.arrival);
  if (deadline_ <= record_.arrival) {
    return absl::DeadlineExceededError("the deadline had passed when the request arrived");
  }
  RETURN_IF_ERROR(ReadMetadata(context_, environment_.access, metadata_));
  return environment_.executor.CheckRoom(metadata_.request_class, deadline_);
}

void AttendCall::OnMessage(bool ok) {
  if (!reception_.End()) {
    return;  // StopReceiving ends the call
  }
  const TimePoint now = steady_clock::now();
  record_.receive_ns = Nanoseconds(now - record_.arrival);
  phase_start_ = now;
  lacks_message_ = !ok;
  if (!ok) {
    EndWith(absl::InvalidArgumentError("expected a request message, found the end of the call"));
    return;
  }
  environment_.access.CountRequest(context_, Right::kCall);
  if (const absl::Status status = CheckEncoding(context_, request_); !status.ok()) {
    EndWith(status);
    return;
  }
  const int64_t inflating = InflatingCost(request_, environment_.unary_limit.max_bytes);
  if (const int64_t cost = inflating > 0 ? inflating : PlanningCost(request_);
      cost > kSmallPlanBytes) {
    AdmitOnSideThread(cost);
  } else {
    AdmitOrEnd();
  }
}

// Admits the request on a side thread. Meanwhile its bytes count in the queue's budget as if it
// waited there.
void AttendCall::AdmitOnSideThread(int64_t cost) {
  absl::StatusOr<std::unique_ptr<HeldBytes>> held = environment_.executor.Reserve(
      metadata_.request_class, static_cast<int64_t>(request_.Length()));
  if (!held.ok()) {
    EndWith(held.status());
    return;
  }
  held_ = *std::move(held);
  RunOnSideThread(cost, [this] { AdmitOrEnd(); });
}

void AttendCall::RunOnSideThread(int64_t cost, std::function<void()> run) {
  environment_.executor.side().Run({.owner = OwnerOf(context_, metadata_),
                                    .cost = cost,
                                    .run = [self = shared_from_this(), run = std::move(run)] {
                                      if (const absl::Status status = ContainVoid("the call", run);
                                          !status.ok()) {
                                        self->OnFailure(status);
                                      }
                                    }});
}

void AttendCall::AdmitOrEnd() {
  if (const absl::Status status = Admit(); !status.ok()) {
    EndWith(status);
  }
}

// Plans the request. Reservations are released afterwards, before the job is counted.
absl::StatusOr<AttendPlan> AttendCall::PlanOnAccount() {
  const std::unique_ptr<HeldBytes> held = std::move(held_);
  PlanAccount account(environment_.executor, {.request_class = metadata_.request_class,
                                              .deadline = deadline_,
                                              .is_cancelled = [this] { return is_cancelled(); }});
  const PlanTerms terms = account.terms();
  RETURN_IF_ERROR(terms.Check());
  ASSIGN_OR_RETURN(request_, InflateRequest(request_, environment_.unary_limit.max_bytes, terms));
  record_.request_bytes = static_cast<int64_t>(request_.Length());
  ASSIGN_OR_RETURN(AttendPlan plan, Plan(request_, terms));
  RETURN_IF_ERROR(PlanPrefixes(environment_.sessions, metadata_.request_class, terms, plan));
  return plan;
}

// Admits the request. After a success the dispatcher may already have ended the call.
absl::Status AttendCall::Admit() {
  record_.request_bytes = static_cast<int64_t>(request_.Length());
  ASSIGN_OR_RETURN(AttendPlan plan, PlanOnAccount());
  request_.Clear();
  Refine(record_.arrival, metadata_, deadline_);
  auto job = std::make_shared<AttendJob>(std::move(plan),
                                         JobOrigin{.size_bytes = record_.request_bytes,
                                                   .request_class = metadata_.request_class,
                                                   .arrival = phase_start_,
                                                   .deadline = deadline_,
                                                   .wants_rows = wants_rows_},
                                         std::static_pointer_cast<AttendSink>(shared_from_this()));
  record_.tokens = job->description().tokens;
  return environment_.executor.Submit(std::move(job));
}

std::string AttendCall::Holder() const { return AccountOf(metadata_.caller, context_); }

std::function<void()> AttendCall::GiveUp() {
  return [self = weak_from_this()] {
    if (const std::shared_ptr<AttendCall> call = self.lock()) {
      call->is_given_up_ = true;
      call->context_.TryCancel();
    }
  };
}

void AttendCall::SetModel(const std::string& name, int64_t version) {
  record_.model = name;
  record_.model_version = version;
}

void AttendCall::OnDone(bool) {
  if (context_.IsCancelled()) {
    set_cancelled();
  }
}

void AttendCall::SetComputed(const BatchStats& stats) {
  phase_start_ = steady_clock::now();
  Record(stats, record_);
}

void AttendCall::CountBlock(const grpc::ByteBuffer& message) {
  if (wants_rows_ && record_.first_block_ns == 0) {
    record_.first_block_ns = Nanoseconds(steady_clock::now() - record_.arrival);
  }
  environment_.observer.OnSend(static_cast<int64_t>(message.Length()));
}

void AttendCall::EndWith(const grpc::ByteBuffer& last_message) {
  End([&] {
    CountBlock(last_message);
    on_finish_.ArmFor([&](void* tag) {
      stream_.WriteAndFinish(last_message, grpc::WriteOptions(), grpc::Status::OK, tag);
    });
  });
}

void AttendCall::EndWith(const absl::Status& error) {
  End([&] {
    if (absl::IsInvalidArgument(error) && !lacks_message_) {  // CountCall has counted that
      environment_.access.CountWrong(context_);
    }
    record_.status = error;
    AddRefusalTrailers(error, context_);
    const grpc::Status status = ToGrpcStatus(error);
    on_finish_.ArmFor([&](void* tag) { stream_.Finish(status, tag); });
  });
}

template <typename Start>
void AttendCall::End(Start start) {
  if (has_end_.exchange(true)) {
    return;
  }
  try {
    if (!has_request_id_) {
      context_.AddTrailingMetadata("x-request-id", metadata_.request_id);
      has_request_id_ = true;
    }
    start();
  } catch (...) {
    has_end_ = false;
    throw;
  }
}

// Ends the call, and cancels it when not even the error can be sent; its memory is released with
// the call.
void AttendCall::OnFailure(const absl::Status& status) noexcept {
  const absl::Status ended = ContainVoid("ending the call", [&] { EndWith(status); });
  if (!ended.ok()) {
    has_end_ = true;
    record_.status = status;
    set_cancelled();
    ContainVoid("ending the call", [&] { context_.TryCancel(); }).IgnoreError();
    LogFailure(ended);
  }
}

void AttendCall::Settle() {
  if (std::exchange(is_settled_, true)) {
    return;
  }
  RunLogged("recording the call", [&] {
    Record(metadata_, record_);
    if (record_.status.ok() && is_given_up_) {
      record_.status = ReplyNotRead();
    } else if (record_.status.ok() && is_cancelled()) {
      record_.status = absl::CancelledError("the caller cancelled while the answer was sent");
    } else if (lacks_message_ && is_cancelled()) {
      record_.status = absl::CancelledError("the caller cancelled while the request was received");
    }
    record_.status = cancellation_.Explain(record_.status);
    environment_.observer.OnEnd(std::move(record_));
  });
  if (is_admitted_) {
    environment_.admission.Leave();
  }
}

AttendCall::~AttendCall() {
  if (has_begun_) {
    Settle();
  }
}

void AttendCall::OnFinish(bool) {
  record_.send_ns = Nanoseconds(steady_clock::now() - phase_start_);
  // If there was no message, either the caller sent none, or it is gone. OnDone finds out which,
  // and the destructor settles the call.
  if (!lacks_message_) {
    Settle();
  }
}

v1::Summary AttendCall::SummaryOf(const BatchStats& stats) const {
  v1::Summary summary = ToWire(stats);
  summary.set_receive_ns(record_.receive_ns);
  summary.set_total_ns(Nanoseconds(steady_clock::now() - record_.arrival));
  return summary;
}

}  // namespace attention
