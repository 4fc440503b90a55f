#include "server/services/attend_call.h"

#include <chrono>
#include <utility>

#include "core/runtime/status_macros.h"
#include "proto/codec/status.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

}  // namespace

AttendCall::AttendCall(const CallEnvironment& environment, std::string_view rpc, bool wants_rows)
    : environment_(environment), visit_(environment.live_calls), wants_rows_(wants_rows) {
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
  PostNext();
  record_.arrival = computed_ = steady_clock::now();
  metadata_ = IdentifyCall(context_);
  is_admitted_ = environment_.admission.TryEnter();
  const absl::Status status =
      is_admitted_ ? CheckHeaders() : absl::UnavailableError("the server is draining");
  if (!status.ok()) {
    EndWith(status);
    return;
  }
  stream_.Read(&request_, on_message_.Arm());
}

absl::Status AttendCall::CheckHeaders() {
  deadline_ = SteadyDeadline(context_, record_.arrival);
  if (deadline_ <= record_.arrival) {
    return absl::DeadlineExceededError("the deadline had passed when the request arrived");
  }
  RETURN_IF_ERROR(ReadMetadata(context_, environment_.access, record_.rpc, metadata_));
  return environment_.executor.CheckRoom(metadata_.request_class, deadline_);
}

void AttendCall::OnMessage(bool ok) {
  const TimePoint now = steady_clock::now();
  record_.receive_ns = Nanoseconds(now - record_.arrival);
  computed_ = now;
  const absl::Status status =
      ok ? Admit()
         : absl::InvalidArgumentError("expected a request message, found the end of the call");
  if (!status.ok()) {
    EndWith(status);
  }
}

// After a success the dispatcher may already have ended the call.
absl::Status AttendCall::Admit() {
  record_.request_bytes = static_cast<int64_t>(request_.Length());
  ASSIGN_OR_RETURN(AttendPlan plan, Plan(request_));
  request_.Clear();
  if (plan.model != nullptr) {
    SetModel(plan.model->name(), plan.model->info().version);
  }
  RETURN_IF_ERROR(Refine(metadata_, deadline_));
  auto job = std::make_shared<AttendJob>(std::move(plan),
                                         JobOrigin{.size_bytes = record_.request_bytes,
                                                   .request_class = metadata_.request_class,
                                                   .arrival = computed_,
                                                   .deadline = deadline_,
                                                   .wants_rows = wants_rows_},
                                         std::static_pointer_cast<AttendSink>(shared_from_this()));
  record_.tokens = job->description().tokens;
  return environment_.executor.Submit(std::move(job));
}

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
  computed_ = steady_clock::now();
  Record(stats, record_);
}

void AttendCall::CountBlock(const grpc::ByteBuffer& message) {
  if (wants_rows_ && record_.first_block_ns == 0) {
    record_.first_block_ns = Nanoseconds(steady_clock::now() - record_.arrival);
  }
  environment_.observer.OnSend(static_cast<int64_t>(message.Length()));
}

void AttendCall::EndWith(const grpc::ByteBuffer& last_message) {
  CountBlock(last_message);
  context_.AddTrailingMetadata("x-request-id", metadata_.request_id);
  stream_.WriteAndFinish(last_message, grpc::WriteOptions(), grpc::Status::OK, on_finish_.Arm());
}

void AttendCall::EndWith(const absl::Status& error) {
  record_.status = error;
  context_.AddTrailingMetadata("x-request-id", metadata_.request_id);
  AddRefusalTrailers(error, context_);
  stream_.Finish(ToGrpcStatus(error), on_finish_.Arm());
}

void AttendCall::OnFinish(bool) {
  record_.send_ns = Nanoseconds(steady_clock::now() - computed_);
  Record(metadata_, record_);
  if (record_.status.ok() && is_given_up_) {
    record_.status = NobodyTakesIt();
  } else if (record_.status.ok() && is_cancelled_) {
    record_.status = absl::CancelledError("the caller cancelled while the answer was sent");
  }
  RecordPeer(context_, record_);
  environment_.observer.OnEnd(std::move(record_));
  if (is_admitted_) {
    environment_.admission.Leave();
  }
}

v1::Summary AttendCall::SummaryOf(const BatchStats& stats) const {
  v1::Summary summary = ToWire(stats);
  summary.set_receive_ns(record_.receive_ns);
  summary.set_total_ns(Nanoseconds(steady_clock::now() - record_.arrival));
  return summary;
}

}  // namespace attention
