#include "server/services/decode/stream_session.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/log/log.h"
#include "server/scheduling/refusal.h"
#include "server/services/decode/open_session.h"
#include "server/services/decode/session_step.h"

namespace attention {
namespace {

// The memory of a waiting action besides its message.
constexpr int64_t kWaitingActionBytes = 4096;
constexpr int64_t kRetryWaitingMs = 100;

// Returns the memory of a session's plan, which has the options of all of its steps.
int64_t PlanBytes(const SessionPlan& plan) {
  return static_cast<int64_t>(sizeof(Session) + plan.step.SpaceUsedLong());
}

// Returns the memory of a fork until it has pages of its own.
int64_t ForkBytes(const SessionSequence& parent) {
  return static_cast<int64_t>(sizeof(SessionSequence)) + TableBytes(parent.caches);
}

// Returns the name of the action; "none" if it has none.
std::string ActionName(const v1::DecodeRequest& request) {
  const auto* const field = request.GetReflection()->GetOneofFieldDescriptor(
      request, request.GetDescriptor()->FindOneofByName("action"));
  return field == nullptr ? "none" : absl::StrCat("`", field->name(), "`");
}

// Returns the name of the first field that is set. REQUIRES: there is one; `open` has no unknown
// fields.
std::string FirstFieldOf(const v1::OpenSession& open) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  open.GetReflection()->ListFields(open, &fields);
  return absl::StrCat("`", fields.front()->name(), "`");
}

}  // namespace

absl::Status CheckRight(const Caller& caller, const Session& session) {
  const std::shared_ptr<const Model>& model = session.plan().target.model;
  return caller.CheckModel(model == nullptr ? "" : model->name());
}

absl::Status StreamSession::BeginOpen() {
  MutexLock lock(mutex_);
  if (session_ != nullptr || is_opening_) {
    return absl::FailedPreconditionError("open: expected a stream without a session, found one");
  }
  is_opening_ = true;
  return absl::OkStatus();
}

void StreamSession::AbandonOpen() {
  MutexLock lock(mutex_);
  is_opening_ = false;
}

absl::Status StreamSession::Open(DecodeAction& action, const ModelRepository& models,
                                 std::function<void()> end_stream, v1::DecodeResult& result) {
  if (const int64_t number = action.request.message.sequence(); number != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence: expected 0 for `open`, found ", number));
  }
  RETURN_IF_ERROR(action.request.message.open().resume_token().empty()
                      ? OpenNew(action, models, std::move(end_stream), result)
                      : Resume(action, std::move(end_stream), result));
  MutexLock lock(mutex_);
  action.session = session_;
  is_opening_ = false;
  return absl::OkStatus();
}

bool StreamSession::TakeOver(const DecodeAction& action, std::function<void()> then) {
  return table_.TakeOver(
      action.request.message.open().resume_token(), action.caller.tenant,
      [&action](const Session& session) { return CheckRight(action.caller, session); },
      std::move(then));
}

absl::Status StreamSession::OpenNew(const DecodeAction& action, const ModelRepository& models,
                                    std::function<void()> end_stream, v1::DecodeResult& result) {
  const v1::OpenSession& open = action.request.message.open();
  const Caller& caller = action.caller;
  RETURN_IF_ERROR(caller.CheckModel(open.model()));
  absl::StatusOr<SessionPlan> plan =
      PlanSession(open, models, {table_.memory(caller.account), table_.prefixes().page_tokens()});
  RETURN_IF_ERROR(caller.HideOtherModels(plan.status()));
  ASSIGN_OR_RETURN(std::shared_ptr<SessionTable::Slot> slot, table_.TakeSlot(caller.account));
  ASSIGN_OR_RETURN(std::unique_ptr<FairBudget::Part> memory,
                   TakeTables(caller.account, PlanBytes(*plan)));
  auto session = std::make_shared<Session>(*std::move(plan), std::move(memory));
  RETURN_IF_ERROR(session->Add(0));
  std::string resume_token;
  if (session->plan().time_to_live > absl::ZeroDuration()) {
    resume_token = SessionTable::MakeResumeToken();
    result.set_resume_token(resume_token);
    table_.AddStreamed(resume_token, {.session = session,
                                      .tenant = caller.tenant,
                                      .end = std::move(end_stream)});  // after this nothing fails
  }
  MutexLock lock(mutex_);
  session_ = std::move(session);
  slot_ = std::move(slot);
  resume_token_ = std::move(resume_token);
  return absl::OkStatus();
}

absl::Status StreamSession::Resume(const DecodeAction& action, std::function<void()> end_stream,
                                   v1::DecodeResult& result) {
  const v1::OpenSession& open = action.request.message.open();
  v1::OpenSession others = open;
  others.clear_resume_token();
  if (others.ByteSizeLong() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("open.resume_token: expected no other field of `open` with it, found ",
                     FirstFieldOf(others)));
  }
  const auto check = [&action](const Session& session) {
    return CheckRight(action.caller, session);
  };
  std::string resume_token = SessionTable::MakeResumeToken();
  std::string earlier_token = open.resume_token();
  result.set_resume_token(resume_token);  // after this nothing fails
  absl::StatusOr<SessionTable::Parked> parked =
      table_.Take(open.resume_token(), action.caller.tenant, check, resume_token,
                  {.tenant = action.caller.tenant,
                   .earlier_token = earlier_token,
                   .end = std::move(end_stream)});
  if (!parked.ok()) {
    result.clear_resume_token();
    return parked.status();
  }
  MutexLock lock(mutex_);
  session_ = std::move(parked->session);
  slot_ = std::move(parked->slot);
  resume_token_ = std::move(resume_token);
  earlier_token_ = std::move(earlier_token);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FairBudget::Part>> StreamSession::TakeTables(
    const std::string& account, int64_t bytes) const {
  FairBudget& all = table_.table_bytes();
  std::unique_ptr<FairBudget::Part> part = all.Take(account, bytes);
  if (part != nullptr) {
    return part;
  }
  return Refuse(absl::StatusCode::kResourceExhausted,
                absl::StrCat("too many bytes of tables and options of sessions: ", all.used(),
                             " of ", all.total(), ", ", bytes, " more would exceed the share of ",
                             account, " (an eighth of --max-cache-bytes, at least 1 MiB)"),
                {.reason = RefusalReason::kTenantShare});
}

void StreamSession::Identify(DecodeAction& action) {
  MutexLock lock(mutex_);
  action.session = session_;
}

absl::StatusOr<SessionSequence*> StreamSession::Claim(const ActionPointer& action) {
  MutexLock lock(mutex_);
  if (session_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("action: expected `open` as the first action of a stream, found ",
                     ActionName(action->request.message)));
  }
  action->session = session_;
  if (!earlier_token_.empty()) {
    table_.ForgetEarlierToken(resume_token_);
    earlier_token_.clear();
  }
  const int64_t number = action->request.message.sequence();
  ASSIGN_OR_RETURN(SessionSequence* const sequence, session_->Find(number));
  if (sequence->is_busy) {
    RETURN_IF_ERROR(ReserveWaiting(*action));
    waiting_[number].push_back(action);
    return nullptr;
  }
  sequence->is_busy = true;
  return sequence;
}

StreamSession::NextAction StreamSession::Next(int64_t number) {
  MutexLock lock(mutex_);
  NextAction next;
  next.sequence = *session_->Find(number);
  const auto waiting = waiting_.find(number);
  if (waiting == waiting_.end() || waiting->second.empty()) {
    next.sequence->is_busy = false;
    return next;
  }
  next.action = std::move(waiting->second.front());
  waiting->second.pop_front();
  return next;
}

std::list<StreamSession::ActionPointer> StreamSession::Release(int64_t number) {
  MutexLock lock(mutex_);
  session_->Release(number);
  std::list<ActionPointer> late;
  if (const auto waiting = waiting_.find(number); waiting != waiting_.end()) {
    late = std::move(waiting->second);
    waiting_.erase(waiting);
  }
  return late;
}

absl::Status StreamSession::ReserveWaiting(DecodeAction& action) const {
  FairBudget& all = table_.waiting_bytes();
  const int64_t bytes = action.record.request_bytes + kWaitingActionBytes;
  const std::string holder = action.caller.account;
  action.waiting_bytes = all.Take(holder, bytes);
  if (action.waiting_bytes != nullptr) {
    return absl::OkStatus();
  }
  return Refuse(absl::StatusCode::kResourceExhausted,
                absl::StrCat("too many bytes of actions wait in sessions: ", all.used(), " of ",
                             all.total(), ", and ", holder,
                             " may hold at most as many as it leaves free; send fewer actions "
                             "ahead"),
                {.reason = RefusalReason::kTenantShare, .retry_after_ms = kRetryWaitingMs});
}

absl::Status StreamSession::Change(const v1::DecodeRequest& request, SessionSequence& sequence) {
  MutexLock lock(mutex_);
  switch (request.action_case()) {
    case v1::DecodeRequest::kFork: {
      ASSIGN_OR_RETURN(std::unique_ptr<FairBudget::Part> tables,
                       TakeTables(slot_->account(), ForkBytes(sequence)));
      return session_->Fork(sequence, request.fork().new_sequence(), std::move(tables));
    }
    case v1::DecodeRequest::kTruncate:
      RETURN_IF_ERROR(
          CheckSessionTruncation(session_->plan(), sequence.length, request.truncate().length()));
      return TruncateTokens(sequence, request.truncate().length());
    default:
      return absl::InvalidArgumentError(
          "action: expected open, step, fork, truncate or release, found none of them");
  }
}

absl::Status StreamSession::SetCaches(SessionSequence& sequence, std::vector<KvCache> caches) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(sequence.tables, TakeTables(slot_->account(), TableBytes(caches)));
  sequence.caches = std::move(caches);
  return absl::OkStatus();
}

absl::Status StreamSession::Empty(SessionSequence& sequence) {
  MutexLock lock(mutex_);
  return TruncateTokens(sequence, 0);
}

absl::Status StreamSession::Reserve(SessionSequence& sequence, int64_t tokens) {
  std::string account;
  {
    MutexLock lock(mutex_);
    account = slot_->account();
  }
  return table_.ReserveFor(account, sequence.caches, tokens, MayEndParked::kYes);
}

void StreamSession::EndStep(int64_t number, bool has_succeeded, int64_t tokens) {
  MutexLock lock(mutex_);
  SessionSequence& sequence = **session_->Find(number);
  if (has_succeeded) {
    sequence.length += tokens;
    SetSize(sequence);
  } else {
    TruncateTokens(sequence, sequence.length).IgnoreError();
  }
}

void StreamSession::Describe(int64_t number, v1::DecodeResult& result) {
  {
    MutexLock lock(mutex_);
    if (session_ != nullptr) {
      const absl::StatusOr<SessionSequence*> sequence = session_->Find(number);
      result.set_length(sequence.ok() ? (*sequence)->length : 0);
      const SessionUse& use = session_->use();
      v1::SessionUsage& usage = *result.mutable_usage();
      usage.set_sequences(use.sequences);
      usage.set_tokens(use.tokens);
      usage.set_cache_bytes(use.cache_bytes);
    }
  }
  const SessionStatistics all = table_.statistics();
  result.mutable_usage()->set_total_cache_bytes(all.cache_bytes);
  result.mutable_usage()->set_max_cache_bytes(all.max_cache_bytes);
}

void StreamSession::LeaveForGood() {
  MutexLock lock(mutex_);
  if (resume_token_.empty()) {
    session_.reset();
    slot_.reset();
  }
}

void StreamSession::Leave(bool is_clean, const std::string& tenant) {
  SessionTable::Waiters waiters;
  {
    MutexLock lock(mutex_);
    ParkOrEnd(is_clean, tenant);
    waiters = table_.RemoveStreamed(resume_token_);
  }
  for (const std::function<void()>& go_on : waiters) {
    RunLogged("resuming a session", go_on);
  }
}

void StreamSession::ParkOrEnd(bool is_clean, const std::string& tenant) {
  if (session_ != nullptr && !is_clean && !resume_token_.empty()) {
    RunLogged("keeping the session", [&] {
      table_.Park(resume_token_,
                  {std::move(session_), std::move(slot_), tenant, std::move(earlier_token_)});
    });
  }
  session_.reset();
  slot_.reset();
}

}  // namespace attention
