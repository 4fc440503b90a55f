#include "server/services/decode_call.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/scheduling/refusal.h"
#include "server/services/session_step.h"
#include "server/services/step_parts.h"
#include "server/services/step_sink.h"

namespace attention {
namespace {

using Action = v1::DecodeRequest;

const char* NameOf(const Action& request) {
  switch (request.action_case()) {
    case Action::kOpen:
      return "Decode.open";
    case Action::kStep:
      return "Decode.step";
    case Action::kFork:
      return "Decode.fork";
    case Action::kTruncate:
      return "Decode.truncate";
    case Action::kRelease:
      return "Decode.release";
    default:
      return "Decode";
  }
}

}  // namespace

void DecodeCall::Post(const DecodeEnvironment& environment) {
  static const int method = AttentionAsyncService::IndexOf("Decode");
  const auto call = std::make_shared<DecodeCall>(environment);
  call->Await(environment.service, method);
}

void DecodeCall::OnMessage(const grpc::ByteBuffer& message, TimePoint arrival) {
  const auto action = std::make_shared<DecodeAction>();
  action->record.arrival = arrival;
  action->record.request_bytes = static_cast<int64_t>(message.Length());
  absl::StatusOr<Received<v1::DecodeRequest>> request = Decode<v1::DecodeRequest>(message);
  if (!request.ok()) {
    action->record.rpc = "Decode";
    Answer(action, request.status());
    return;
  }
  action->request = *std::move(request);
  action->record.rpc = NameOf(action->request.message);
  Enter(action);
}

void DecodeCall::Enter(const ActionPointer& action) {
  const v1::DecodeRequest& request = action->request.message;
  if (request.has_open()) {
    Encoder encoder;
    v1::DecodeResponse response;
    const absl::Status status = Open(request.open(), *response.mutable_result());
    Answer(action, status, response, encoder);
    return;
  }
  absl::StatusOr<SessionSequence*> sequence =
      absl::FailedPreconditionError("action: expected `open`, which comes first, found another");
  {
    MutexLock lock(session_mutex_);
    if (session_ != nullptr) {
      action->session = session_;
      sequence = session_->Find(request.sequence());
    }
    if (sequence.ok() && std::exchange((*sequence)->is_busy, true)) {
      (*sequence)->waiting.push_back(action);
      return;
    }
  }
  if (sequence.ok()) {
    Carry(action, **sequence);
  } else {
    Answer(action, sequence.status());
  }
}

void DecodeCall::Carry(const ActionPointer& action, SessionSequence& sequence) {
  const v1::DecodeRequest& request = action->request.message;
  if (request.has_release()) {
    Release(action);
    return;
  }
  const absl::Status status =
      request.has_step() ? BeginStep(action, sequence) : Change(request, sequence);
  if (!request.has_step() || !status.ok()) {
    Answer(action, status);
    Proceed(request.sequence());
  }
}

absl::Status DecodeCall::Open(const v1::OpenSession& open, v1::DecodeResult& result) {
  {
    MutexLock lock(session_mutex_);
    if (session_ != nullptr) {
      return absl::FailedPreconditionError("open: expected a stream without a session, found one");
    }
  }
  if (!open.resume_token().empty()) {
    return Resume(open, result);
  }
  RETURN_IF_ERROR(caller().CheckModel(open.model()));
  absl::StatusOr<SessionPlan> plan =
      PlanSession(open, environment_.models, decode_.sessions.memory());
  RETURN_IF_ERROR(caller().Conceal(plan.status()));
  ASSIGN_OR_RETURN(std::shared_ptr<SessionTable::Place> place, decode_.sessions.Enter());
  auto session = std::make_shared<Session>(*std::move(plan));
  RETURN_IF_ERROR(session->Add(0));
  MutexLock lock(session_mutex_);
  session_ = std::move(session);
  place_ = std::move(place);
  if (session_->plan().time_to_live > absl::ZeroDuration()) {
    resume_token_ = SessionTable::MakeToken();
    result.set_resume_token(resume_token_);
  }
  return absl::OkStatus();
}

absl::Status DecodeCall::Resume(const v1::OpenSession& open, v1::DecodeResult& result) {
  v1::OpenSession nothing_else;
  nothing_else.set_resume_token(open.resume_token());
  if (nothing_else.SerializeAsString() != open.SerializeAsString()) {
    return absl::InvalidArgumentError(
        "open.resume_token: expected no other field beside it, found some");
  }
  const auto check = [this](const Session& session) {
    const std::shared_ptr<const Model>& model = session.plan().target.model;
    return caller().CheckModel(model == nullptr ? "" : model->name());
  };
  ASSIGN_OR_RETURN(SessionTable::Parked parked,
                   decode_.sessions.Take(open.resume_token(), caller().tenant, check));
  MutexLock lock(session_mutex_);
  session_ = std::move(parked.session);
  place_ = std::move(parked.place);
  resume_token_ = SessionTable::MakeToken();
  result.set_resume_token(resume_token_);
  return absl::OkStatus();
}

absl::Status DecodeCall::BeginStep(const ActionPointer& action, SessionSequence& sequence) {
  ASSIGN_OR_RETURN(AttendPlan plan,
                   PlanSessionStep({action->request.message.step(), action->request.bytes},
                                   action->session->plan(), sequence, environment_.stream_limit));
  if (plan.model != nullptr) {
    action->record.model = plan.model->name();
    action->record.model_version = plan.model->info().version;
  }
  RETURN_IF_ERROR(Reserve(sequence, plan.sequences[0].query.rows));
  auto job = std::make_shared<AttendJob>(
      std::move(plan),
      JobOrigin{.size_bytes = action->record.request_bytes,
                .request_class = metadata().request_class,
                .arrival = action->record.arrival,
                .deadline = deadline()},
      std::make_shared<StepSink>(std::static_pointer_cast<DecodeCall>(shared_from_this()), action,
                                 environment_.queue));
  action->record.tokens = job->description().tokens;
  absl::Status status = environment_.executor.Submit(std::move(job));
  if (!status.ok()) {
    TruncateTokens(sequence, sequence.length).IgnoreError();  // gives back what was reserved
  }
  return status;
}

absl::Status DecodeCall::Reserve(SessionSequence& sequence, int64_t tokens) {
  SessionTable& sessions = decode_.sessions;
  absl::Status reserved = ReserveTokens(sequence, tokens);
  const bool could_fit = CacheBytesWith(sequence, tokens) <= sessions.memory()->max_bytes();
  while (could_fit && absl::IsResourceExhausted(reserved) && sessions.EndOneParked()) {
    reserved = ReserveTokens(sequence, tokens);
  }
  return reserved;
}

void DecodeCall::OnStepDone(const ActionPointer& action, const AttendReply& reply,
                            const absl::Status& status, const BatchStats& stats) {
  const Hold hold(*this);
  RequestRecord& record = action->record;
  Record(stats, record);
  const int64_t number = action->request.message.sequence();
  {
    MutexLock lock(session_mutex_);
    SessionSequence& sequence = **session_->Find(number);
    if (status.ok()) {
      sequence.length += record.tokens;
    } else {
      TruncateTokens(sequence, sequence.length).IgnoreError();
    }
  }
  v1::DecodeResponse response;
  Encoder encoder;
  v1::Summary& summary = *response.mutable_result()->mutable_summary();
  summary = ToWire(stats);
  summary.set_total_ns(Nanoseconds(std::chrono::steady_clock::now() - action->record.arrival));
  if (status.ok()) {
    WriteStepParts(*action, reply, response, encoder,
                   [this](const grpc::ByteBuffer& message) { Send(message); });
  }
  Answer(action, status, response, encoder);
  Proceed(number);
}

absl::Status DecodeCall::Change(const v1::DecodeRequest& request, SessionSequence& sequence) {
  MutexLock lock(session_mutex_);
  switch (request.action_case()) {
    case Action::kFork:
      return session_->Fork(sequence, request.fork().new_sequence());
    case Action::kTruncate:
      RETURN_IF_ERROR(
          CheckSessionTruncation(session_->plan(), sequence.length, request.truncate().length()));
      return TruncateTokens(sequence, request.truncate().length());
    default:
      return absl::InvalidArgumentError(
          "action: expected open, step, fork, truncate or release, found none of them");
  }
}

void DecodeCall::Answer(const ActionPointer& action, const absl::Status& status) {
  v1::DecodeResponse response;
  Encoder encoder;
  Answer(action, status, response, encoder);
}

void DecodeCall::Answer(const ActionPointer& action, const absl::Status& status,
                        v1::DecodeResponse& response, Encoder& encoder) {
  const v1::DecodeRequest& request = action->request.message;
  response.set_id(request.id());
  response.set_sequence(request.sequence());
  v1::DecodeResult& result = *response.mutable_result();
  result.set_code(static_cast<int>(status.code()));
  result.set_message(std::string(status.message()));
  if (const std::optional<Refusal> refusal = RefusalOf(status)) {
    result.set_retry_after_ms(refusal->retry_after_ms);
  }
  {
    MutexLock lock(session_mutex_);
    if (session_ != nullptr) {
      const absl::StatusOr<SessionSequence*> sequence = session_->Find(request.sequence());
      result.set_length(sequence.ok() ? (*sequence)->length : 0);
      const SessionUse& use = session_->use();
      v1::SessionUsage& usage = *result.mutable_usage();
      usage.set_sequences(use.sequences);
      usage.set_tokens(use.tokens);
      usage.set_cache_bytes(use.cache_bytes);
    }
  }
  const SessionStatistics all = decode_.sessions.statistics();
  result.mutable_usage()->set_total_cache_bytes(all.cache_bytes);
  result.mutable_usage()->set_max_cache_bytes(all.max_cache_bytes);
  action->record.status = status;
  Send(encoder.Encode(response), std::move(action->record));
}

void DecodeCall::Proceed(int64_t number) {
  ActionPointer next;
  SessionSequence* sequence = nullptr;
  {
    MutexLock lock(session_mutex_);
    sequence = *session_->Find(number);
    if (sequence->waiting.empty()) {
      sequence->is_busy = false;
      return;
    }
    next = std::move(sequence->waiting.front());
    sequence->waiting.pop_front();
  }
  Carry(next, *sequence);
}

void DecodeCall::Release(const ActionPointer& action) {
  std::deque<ActionPointer> waiting;
  {
    MutexLock lock(session_mutex_);
    waiting = session_->Release(action->request.message.sequence());
  }
  Answer(action, absl::OkStatus());
  for (const ActionPointer& late : waiting) {
    Enter(late);
  }
}

void DecodeCall::OnEnd(bool is_clean) {
  MutexLock lock(session_mutex_);
  if (session_ != nullptr && !is_clean && !resume_token_.empty()) {
    decode_.sessions.Park(resume_token_, {std::move(session_), std::move(place_), caller().tenant});
  }
  session_.reset();
  place_.reset();
}

}  // namespace attention
