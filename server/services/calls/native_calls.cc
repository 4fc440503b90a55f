#include "server/services/calls/native_calls.h"

#include <utility>

#include "core/runtime/status_macros.h"
#include "proto/codec/envelope.h"
#include "server/services/reply/encode_reply.h"

namespace attention {

int64_t NativeCall::PlanningCost(const grpc::ByteBuffer& request) const {
  return EnvelopeCost<v1::AttendRequest>(request);
}

absl::StatusOr<AttendPlan> NativeCall::Plan(const grpc::ByteBuffer& request,
                                            const PlanTerms& terms) {
  ASSIGN_OR_RETURN(const Received<v1::AttendRequest> received,
                   Decode<v1::AttendRequest>(request, terms.Begin()));
  RETURN_IF_ERROR(caller().CheckModel(received.message.model()));
  absl::StatusOr<std::shared_ptr<const Model>> model =
      ModelOf(received.message, environment_.models);
  if (!model.ok()) {
    return caller().HideOtherModels(model.status());
  }
  if (*model != nullptr) {
    SetModel((*model)->name(),
             (*model)->info().version);  // also of a request that is refused below
  }
  return PlanAttendOn(*std::move(model), received, limit(), terms);
}

void AttendUnaryCall::Post(const NativeEnvironment& environment) {
  static const int method = AttentionAsyncService::IndexOf("Attend");
  const auto call = std::make_shared<AttendUnaryCall>(environment);
  call->Await(environment.service, method);
}

void AttendUnaryCall::Finish(const std::shared_ptr<const AttendReply>& reply,
                             const absl::Status& status, const BatchStats& stats) {
  SetComputed(stats);
  if (!status.ok()) {
    OnFailure(status);
    return;
  }
  const auto send = [this, reply, stats] { EndWith(EncodeResponse(*reply, SummaryOf(stats))); };
  const absl::Status sent = ContainVoid("sending the answer", [&] {
    if (reply->message_bytes() > kSmallReplyBytes) {
      RunOnSideThread(reply->message_bytes(), send);
    } else {
      send();
    }
  });
  if (!sent.ok()) {
    OnFailure(sent);
  }
}

void AttendStreamCall::Post(const NativeEnvironment& environment) {
  static const int method = AttentionAsyncService::IndexOf("AttendStream");
  const auto call = std::make_shared<AttendStreamCall>(environment);
  call->Await(environment.service, method);
}

void AttendStreamCall::OnRows(const std::shared_ptr<const AttendReply>& reply,
                              const RowRange& rows) {
  const absl::Status queued = ContainVoid("sending rows", [&] {
    MutexLock lock(mutex_);
    reply_ = reply;
    for (const RowRange& block : SplitRows(*reply, rows)) {
      rows_.push_back(block);
    }
  });
  if (queued.ok()) {
    Advance();
  } else {
    Fail(queued);
  }
}

void AttendStreamCall::Finish(const std::shared_ptr<const AttendReply>& reply,
                              const absl::Status& status, const BatchStats& stats) {
  SetComputed(stats);
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

ReplyPart AttendStreamCall::TakePart() {
  ReplyPart part;
  const bool has_failed = end_.has_value() && !end_->status.ok();
  if (is_cancelled() || (has_failed && rows_.empty())) {
    return part;
  }
  part.tokens = NextTokens(*reply_, last_tokens_);
  if (part.tokens.has_value()) {
    last_tokens_ = *part.tokens;
  } else if (!rows_.empty()) {
    part.rows = rows_.front();
    rows_.pop_front();
  } else if (end_.has_value()) {
    part.scores = NextScores(*reply_, last_scores_);
    last_scores_ = part.scores.value_or(last_scores_);
  }
  return part;
}

void AttendStreamCall::Advance() {
  TryToSend([this] { SendNext(); });
}

void AttendStreamCall::TryToSend(absl::FunctionRef<void()> send) {
  const absl::Status sent = ContainVoid("sending rows", send);
  if (sent.ok()) {
    return;
  }
  Fail(sent);
  {
    MutexLock lock(mutex_);
    // No operation is running. If the job has not ended yet, its end will end the call.
    is_busy_ = end_.has_value();
    if (!is_busy_) {
      return;
    }
  }
  OnFailure(sent);
}

void AttendStreamCall::Fail(const absl::Status& status) {
  set_cancelled();
  MutexLock lock(mutex_);
  failure_ = failure_.ok() ? status : failure_;
  rows_.clear();
}

void AttendStreamCall::SendNext() {
  ReplyPart part;
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
  // Written without the lock, so that the dispatcher never waits for a write that a completion
  // thread starts.
  if (part.empty()) {
    SendEnd();
  } else if (part.tokens.has_value() && reply->message_bytes() > kSmallReplyBytes) {
    RunOnSideThread(reply->message_bytes(),
                    [this, reply, part] { TryToSend([&] { SendPart(*reply, part); }); });
  } else {
    SendPart(*reply, part);
  }
}

void AttendStreamCall::SendPart(const AttendReply& reply, const ReplyPart& part) {
  const grpc::ByteBuffer block = EncodePart(reply, part);
  CountBlock(block);
  on_written_.ArmFor([&](void* tag) { stream_.Write(block, tag); });
}

void AttendStreamCall::SendEnd() {
  End end;
  {
    MutexLock lock(mutex_);
    end = *end_;
    end.status = failure_.ok() ? end.status : failure_;
  }
  if (end.status.ok()) {
    EndWith(EncodeSummary(SummaryOf(end.stats)));
  } else {
    EndWith(end.status);
  }
}

}  // namespace attention
