#include "server/services/decode/decode_call.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/presented_status.h"
#include "core/runtime/status_macros.h"
#include "server/scheduling/refusal.h"
#include "server/services/decode/session_step.h"
#include "server/services/decode/step_parts.h"
#include "server/services/decode/step_sink.h"
#include "server/services/reply/encode_reply.h"

namespace attention {
namespace {

using Action = v1::DecodeRequest;

// What errors of memory say that failed.
constexpr std::string_view kWork = "the action";
// What an action that waits takes beside its message.
constexpr int64_t kWaitingActionBytes = 4096;
constexpr int64_t kRetryWaitingMs = 100;

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

int64_t DecodeCall::PlanningCost(const grpc::ByteBuffer& message) const {
  return EnvelopeCost<v1::DecodeRequest>(message);
}

void DecodeCall::OnMessage(const grpc::ByteBuffer& message, TimePoint arrival) {
  AnnounceIdleTimeout();
  RequestRecord record;
  record.rpc = "Decode";
  record.arrival = arrival;
  record.request_bytes = static_cast<int64_t>(message.Length());
  ActionPointer action;
  const absl::Status made = ContainVoid(kWork, [&] { action = std::make_shared<DecodeAction>(); });
  if (!made.ok()) {
    EndUnanswered(std::move(record), made);
    return;
  }
  action->record = std::move(record);
  const absl::Status status = Contain(kWork, [&]() -> absl::Status {
    action->caller = message_metadata().caller;
    action->request_class = message_metadata().request_class;
    ASSIGN_OR_RETURN(action->request, Decode<v1::DecodeRequest>(message));
    action->record.rpc = NameOf(action->request.message);
    return absl::OkStatus();
  });
  if (status.ok()) {
    Enter(action);
  } else {
    Answer(action, status);
  }
}

void DecodeCall::EndUnanswered(RequestRecord record, const absl::Status& status) {
  record.status = status;
  EndWithoutMessage(std::move(record));
  Close(status);
}

absl::StatusOr<SessionSequence*> DecodeCall::Claim(const ActionPointer& action) {
  MutexLock lock(session_mutex_);
  if (session_ == nullptr) {
    return absl::FailedPreconditionError(
        "action: expected `open`, which comes first, found another");
  }
  place_->Touch();
  action->session = session_;
  ASSIGN_OR_RETURN(SessionSequence* const sequence,
                   session_->Find(action->request.message.sequence()));
  if (sequence->is_busy) {
    RETURN_IF_ERROR(ReserveWaiting(*action));
    sequence->waiting.push_back(action);
    return nullptr;
  }
  sequence->is_busy = true;
  return sequence;
}

void DecodeCall::AnnounceIdleTimeout() {
  if (!std::exchange(has_met_action_, true) &&
      decode_.sessions.idle_timeout() != absl::InfiniteDuration()) {
    ContainVoid(kWork, [&] {
      context_.AddInitialMetadata(
          "attend-session-idle-timeout-ms",
          absl::StrCat(absl::ToInt64Milliseconds(decode_.sessions.idle_timeout())));
    }).IgnoreError();
  }
}

std::function<bool()> DecodeCall::IdleEnd() {
  return [self = std::weak_ptr<DuplexCall>(weak_from_this())] {
    const std::shared_ptr<DuplexCall> call = self.lock();
    return call == nullptr || static_cast<DecodeCall&>(*call).EndIdle();
  };
}

bool DecodeCall::EndIdle() {
  if (is_busy()) {
    return false;
  }
  Refuse(absl::AbortedError(absl::StrCat("the session had no action for ",
                                         absl::FormatDuration(decode_.sessions.idle_timeout()),
                                         " (--session-idle-timeout)")));
  return true;
}

void DecodeCall::Enter(const ActionPointer& action) {
  const v1::DecodeRequest& request = action->request.message;
  if (request.has_open()) {
    Encoder encoder;
    v1::DecodeResponse response;
    const absl::Status status =
        Contain(kWork, [&] { return Open(*action, *response.mutable_result()); });
    if (status.ok()) {
      Answer(action, status, response, encoder);
    } else {
      Answer(action, status);
    }
    return;
  }
  const absl::StatusOr<SessionSequence*> sequence = Contain(kWork, [&] { return Claim(action); });
  if (!sequence.ok()) {
    Answer(action, sequence.status());
  } else if (*sequence != nullptr) {
    Carry(action, **sequence);
  }
}

absl::Status DecodeCall::ReserveWaiting(DecodeAction& action) const {
  FairBudget& all = decode_.sessions.waiting_bytes();
  const int64_t bytes = action.record.request_bytes + kWaitingActionBytes;
  const std::string holder = action.caller.account;
  action.waiting_bytes = all.Take(holder, bytes);
  if (action.waiting_bytes != nullptr) {
    return absl::OkStatus();
  }
  return attention::Refuse(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("too much waits for steps of sessions: ", all.used(), " of ", all.total(),
                   " bytes, of which ", holder,
                   " may have no more than it leaves free; send "
                   "fewer actions ahead"),
      {.reason = RefusalReason::kTenantShare, .retry_after_ms = kRetryWaitingMs});
}

void DecodeCall::Carry(const ActionPointer& action, SessionSequence& sequence) {
  action->waiting_bytes.reset();
  const v1::DecodeRequest& request = action->request.message;
  if (request.has_release()) {
    Release(action);
    return;
  }
  const absl::Status status = Contain(kWork, [&] {
    return request.has_step() ? BeginStep(action, sequence) : Change(request, sequence);
  });
  if (request.has_step() && !status.ok()) {
    TruncateTokens(sequence, sequence.length).IgnoreError();  // gives back what was reserved
  }
  if (!request.has_step() || !status.ok()) {
    Answer(action, status);
    Proceed(request.sequence());
  }
}

absl::Status DecodeCall::Open(const DecodeAction& action, v1::DecodeResult& result) {
  const v1::OpenSession& open = action.request.message.open();
  {
    MutexLock lock(session_mutex_);
    if (session_ != nullptr) {
      return absl::FailedPreconditionError("open: expected a stream without a session, found one");
    }
  }
  if (!open.resume_token().empty()) {
    return Resume(action, result);
  }
  const Caller& caller = action.caller;
  RETURN_IF_ERROR(caller.CheckModel(open.model()));
  absl::StatusOr<SessionPlan> plan =
      PlanSession(open, environment_.models, decode_.sessions.memory(caller.account));
  RETURN_IF_ERROR(caller.Conceal(plan.status()));
  ASSIGN_OR_RETURN(std::shared_ptr<SessionTable::Place> place,
                   decode_.sessions.Enter(caller.account));
  auto session = std::make_shared<Session>(*std::move(plan));
  RETURN_IF_ERROR(session->Add(0));
  std::string resume_token;
  if (session->plan().time_to_live > absl::ZeroDuration()) {
    resume_token = SessionTable::MakeToken();
    result.set_resume_token(resume_token);
  }
  place->SetEnd(IdleEnd());
  MutexLock lock(session_mutex_);
  session_ = std::move(session);
  place_ = std::move(place);
  resume_token_ = std::move(resume_token);
  return absl::OkStatus();
}

absl::Status DecodeCall::CheckRight(const Caller& caller, const Session& session) {
  const std::shared_ptr<const Model>& model = session.plan().target.model;
  return caller.CheckModel(model == nullptr ? "" : model->name());
}

absl::Status DecodeCall::Resume(const DecodeAction& action, v1::DecodeResult& result) {
  const v1::OpenSession& open = action.request.message.open();
  v1::OpenSession nothing_else;
  nothing_else.set_resume_token(open.resume_token());
  if (nothing_else.SerializeAsString() != open.SerializeAsString()) {
    return absl::InvalidArgumentError(
        "open.resume_token: expected no other field beside it, found some");
  }
  const auto check = [&action](const Session& session) {
    return CheckRight(action.caller, session);
  };
  std::string resume_token = SessionTable::MakeToken();
  result.set_resume_token(resume_token);
  std::function<bool()> idle_end = IdleEnd();  // after this nothing fails
  absl::StatusOr<SessionTable::Parked> parked =
      decode_.sessions.Take(open.resume_token(), action.caller.tenant, check);
  if (!parked.ok()) {
    result.clear_resume_token();
    return parked.status();
  }
  parked->place->SetEnd(std::move(idle_end));
  MutexLock lock(session_mutex_);
  session_ = std::move(parked->session);
  place_ = std::move(parked->place);
  resume_token_ = std::move(resume_token);
  return absl::OkStatus();
}

absl::StatusOr<AttendPlan> DecodeCall::PlanOnAccount(const DecodeAction& action,
                                                     SessionSequence& sequence) {
  PlanAccount account(environment_.executor, AsPlanCaller());
  const PlanTerms terms = account.terms();
  RETURN_IF_ERROR(terms.Check());
  return PlanSessionStep({action.request.message.step(), action.request.bytes},
                         action.session->plan(), sequence, {environment_.stream_limit, terms});
}

absl::Status DecodeCall::BeginStep(const ActionPointer& action, SessionSequence& sequence) {
  RETURN_IF_ERROR(CheckRight(action->caller, *action->session));
  ASSIGN_OR_RETURN(AttendPlan plan, PlanOnAccount(*action, sequence));
  if (plan.model != nullptr) {
    action->record.model = plan.model->name();
    action->record.model_version = plan.model->info().version;
  }
  RETURN_IF_ERROR(Reserve(sequence, plan.sequences[0].query.rows));
  auto job = std::make_shared<AttendJob>(
      std::move(plan),
      JobOrigin{.size_bytes = action->record.request_bytes,
                .request_class = action->request_class,
                .arrival = action->record.arrival,
                .deadline = deadline()},
      std::make_shared<StepSink>(std::static_pointer_cast<DecodeCall>(shared_from_this()), action,
                                 environment_.queue));
  action->record.tokens = job->description().tokens;
  return environment_.executor.Submit(std::move(job));
}

absl::Status DecodeCall::Reserve(SessionSequence& sequence, int64_t tokens) {
  SessionTable& sessions = decode_.sessions;
  std::string account;
  {
    MutexLock lock(session_mutex_);
    account = place_->account();
  }
  absl::Status reserved = ReserveTokens(sequence, tokens);
  const bool could_fit = CacheBytesWith(sequence, tokens) <= sessions.memory(account)->max_bytes();
  while (could_fit && absl::IsResourceExhausted(reserved) && sessions.EndOneParkedFor(account)) {
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
  v1::DecodeResponse response;
  Encoder encoder;
  bool is_built = false;
  // A step that cannot be answered has failed, too, and leaves nothing behind.
  const absl::Status end = Contain("answering the step", [&] {
    v1::Summary& summary = *response.mutable_result()->mutable_summary();
    summary = ToWire(stats);
    summary.set_total_ns(Nanoseconds(std::chrono::steady_clock::now() - action->record.arrival));
    if (status.ok()) {
      WriteStepParts(*action, reply, response, encoder,
                     [this](const grpc::ByteBuffer& message) { Send(message); });
    }
    is_built = true;
    return status;
  });
  {
    MutexLock lock(session_mutex_);
    SessionSequence& sequence = **session_->Find(number);
    if (end.ok()) {
      sequence.length += record.tokens;
    } else {
      TruncateTokens(sequence, sequence.length).IgnoreError();
    }
  }
  if (is_built) {
    Answer(action, end, response, encoder);
  } else {
    Answer(action, end);  // protobuf cannot encode a message in which an allocation failed
  }
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
  const absl::StatusOr<grpc::ByteBuffer> message = Contain(
      "answering the action", [&] { return EncodeResult(*action, status, response, encoder); });
  if (message.ok()) {
    action->record.status = status;
    Send(*message, std::move(action->record));
  } else {
    EndUnanswered(std::move(action->record), message.status());
  }
}

absl::StatusOr<grpc::ByteBuffer> DecodeCall::EncodeResult(const DecodeAction& action,
                                                          const absl::Status& status,
                                                          v1::DecodeResponse& response,
                                                          Encoder& encoder) {
  const v1::DecodeRequest& request = action.request.message;
  response.set_id(request.id());
  response.set_sequence(request.sequence());
  v1::DecodeResult& result = *response.mutable_result();
  result.set_code(static_cast<int>(status.code()));
  result.set_message(std::string(Presented(status).message()));
  if (const std::optional<Refusal> refusal = RefusalOf(status)) {
    result.set_retry_after_ms(refusal->retry_after_ms);
  }
  {
    MutexLock lock(session_mutex_);
    if (session_ != nullptr) {
      place_->Touch();
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
  return encoder.Encode(response);
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
  const auto carry = [this, next, sequence] {
    const Hold hold(*this);
    Carry(next, *sequence);
  };
  const absl::Status given =
      ContainVoid(kWork, [&] { RunAside(next->record.request_bytes, carry); });
  if (!given.ok()) {
    carry();
  }
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
    place_->SetEnd(nullptr);
    decode_.sessions.Park(resume_token_,
                          {std::move(session_), std::move(place_), metadata().caller.tenant});
  }
  session_.reset();
  place_.reset();
}

}  // namespace attention
