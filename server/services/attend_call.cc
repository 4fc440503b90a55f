#include "server/services/attend_call.h"

#include <chrono>
#include <utility>

#include "core/runtime/status_macros.h"
#include "proto/codec/envelope.h"
#include "proto/codec/status.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

// gRPC counts deadlines by the wall clock.
TimePoint SteadyDeadline(const grpc::ServerContext& context, TimePoint now) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return TimePoint::max();
  }
  return now + std::chrono::duration_cast<steady_clock::duration>(deadline -
                                                                  std::chrono::system_clock::now());
}

int64_t NanosecondsSince(TimePoint begin) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now() - begin).count();
}

}  // namespace

AttendCall::AttendCall(const AttendEnvironment& environment, const ReplyLimit& limit,
                       bool wants_rows)
    : environment_(environment),
      visit_(environment.live_calls),
      limit_(limit),
      wants_rows_(wants_rows) {
  context_.AsyncNotifyWhenDone(static_cast<CompletionTag*>(&on_done_));
}

void AttendCall::OnRequest(bool ok) {
  if (!ok) {
    on_done_.Disarm();
    return;
  }
  PostNext();
  arrival_ = steady_clock::now();
  is_admitted_ = environment_.admission.TryEnter();
  const absl::Status status =
      is_admitted_ ? Admit() : absl::UnavailableError("the server is draining");
  if (!status.ok()) {
    Refuse(status);
  }
}

// After a success the dispatcher may already have ended the call.
absl::Status AttendCall::Admit() {
  const JobOrigin origin = {.size_bytes = static_cast<int64_t>(request_.Length()),
                            .arrival = arrival_,
                            .deadline = SteadyDeadline(context_, arrival_),
                            .wants_rows = wants_rows_};
  if (origin.deadline <= arrival_) {
    return absl::DeadlineExceededError("the deadline had passed when the request arrived");
  }
  ASSIGN_OR_RETURN(const Received<v1::AttendRequest> received, Decode<v1::AttendRequest>(request_));
  request_.Clear();
  ASSIGN_OR_RETURN(AttendPlan plan, PlanAttend(received, environment_.models, limit_));
  auto job = std::make_shared<AttendJob>(std::move(plan), origin,
                                         std::static_pointer_cast<AttendSink>(shared_from_this()));
  return environment_.executor.Submit(std::move(job));
}

void AttendCall::OnDone(bool) {
  if (context_.IsCancelled()) {
    set_cancelled();
  }
}

void AttendCall::OnFinish(bool) {
  if (is_admitted_) {
    environment_.admission.Leave();
  }
}

v1::Summary AttendCall::SummaryOf(const BatchStats& stats) const {
  v1::Summary summary;
  summary.set_queue_ns(stats.queue_ns);
  summary.set_compute_ns(stats.compute_ns);
  summary.set_total_ns(NanosecondsSince(arrival_));
  summary.set_batch_id(stats.batch_id);
  summary.set_batch_requests(stats.batch_requests);
  summary.set_batch_sequences(stats.batch_sequences);
  summary.set_batch_tokens(stats.batch_tokens);
  return summary;
}

void AttendUnaryCall::Post(const AttendEnvironment& environment) {
  const auto call = std::make_shared<AttendUnaryCall>(environment);
  call->on_done_.Arm();
  environment.service.RequestAttend(&call->context_, &call->request_, &call->writer_,
                                    environment.queue, environment.queue, call->on_request_.Arm());
}

void AttendUnaryCall::Refuse(const absl::Status& status) {
  writer_.FinishWithError(ToGrpcStatus(status), on_finish_.Arm());
}

void AttendUnaryCall::Finish(const std::shared_ptr<const AttendReply>& reply,
                             const absl::Status& status, const BatchStats& stats) {
  if (!status.ok()) {
    Refuse(status);
    return;
  }
  writer_.Finish(reply->EncodeResponse(SummaryOf(stats)), grpc::Status::OK, on_finish_.Arm());
}

void AttendStreamCall::Post(const AttendEnvironment& environment) {
  const auto call = std::make_shared<AttendStreamCall>(environment);
  call->on_done_.Arm();
  environment.service.RequestAttendStream(&call->context_, &call->request_, &call->writer_,
                                          environment.queue, environment.queue,
                                          call->on_request_.Arm());
}

void AttendStreamCall::Refuse(const absl::Status& status) {
  writer_.Finish(ToGrpcStatus(status), on_finish_.Arm());
}

void AttendStreamCall::OnRows(const std::shared_ptr<const AttendReply>& reply,
                              const RowRange& rows) {
  {
    MutexLock lock(mutex_);
    reply_ = reply;
    for (const RowRange& block : reply->SplitRows(rows)) {
      rows_.push_back(block);
    }
  }
  Advance();
}

void AttendStreamCall::Finish(const std::shared_ptr<const AttendReply>& reply,
                              const absl::Status& status, const BatchStats& stats) {
  {
    MutexLock lock(mutex_);
    reply_ = reply;
    end_ = End{status, stats};
  }
  Advance();
}

void AttendStreamCall::OnWritten(bool ok) {
  if (!ok) {
    set_cancelled();
  }
  {
    MutexLock lock(mutex_);
    is_busy_ = false;
  }
  Advance();
}

AttendStreamCall::Part AttendStreamCall::TakePart() {
  Part part;
  const bool has_failed = end_.has_value() && !end_->status.ok();
  if (is_cancelled() || (has_failed && rows_.empty())) {
    return part;
  }
  part.tokens = reply_->NextTokens(last_tokens_);
  if (part.tokens.has_value()) {
    last_tokens_ = *part.tokens;
  } else if (!rows_.empty()) {
    part.rows = rows_.front();
    rows_.pop_front();
  } else if (end_.has_value()) {
    part.scores = reply_->NextScores(last_scores_);
    last_scores_ = part.scores.value_or(last_scores_);
  }
  return part;
}

void AttendStreamCall::Advance() {
  Part part;
  std::shared_ptr<const AttendReply> reply;
  {
    MutexLock lock(mutex_);
    if (is_busy_) {
      return;
    }
    part = TakePart();
    if (part.empty() && !end_.has_value()) {
      return;
    }
    is_busy_ = true;
    reply = reply_;
  }
  // Outside the lock: the dispatcher never waits for a write that a completion thread starts.
  if (part.empty()) {
    SendEnd();
  } else {
    writer_.Write(Encode(*reply, part), on_written_.Arm());
  }
}

grpc::ByteBuffer AttendStreamCall::Encode(const AttendReply& reply, const Part& part) {
  return part.tokens.has_value() ? reply.EncodeTokens(*part.tokens)
         : part.rows.has_value() ? reply.EncodeRows(*part.rows)
                                 : reply.EncodeScores(*part.scores);
}

void AttendStreamCall::SendEnd() {
  End end;
  {
    MutexLock lock(mutex_);
    end = *end_;
  }
  if (end.status.ok()) {
    writer_.WriteAndFinish(EncodeSummary(SummaryOf(end.stats)), grpc::WriteOptions(),
                           grpc::Status::OK, on_finish_.Arm());
  } else {
    Refuse(end.status);
  }
}

}  // namespace attention
