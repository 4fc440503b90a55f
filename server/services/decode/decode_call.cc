#include "server/services/decode/decode_call.h"

#include <chrono>
#include <list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/presented_status.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/outline.h"
#include "server/scheduling/refusal.h"
#include "server/services/decode/session_step.h"
#include "server/services/decode/step_parts.h"
#include "server/services/decode/step_sink.h"
#include "server/services/plan/plan_prefix.h"
#include "server/services/reply/encode_reply.h"

namespace attention {
namespace {

using Action = v1::DecodeRequest;

// The name of the work in errors of memory.
constexpr std::string_view kWork = "the action";

// The bytes of keys and values that a completion thread copies at most.
constexpr int64_t kSmallCopyBytes = int64_t{256} << 10;

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

void DecodeCall::Post(const NativeEnvironment& environment) {
  static const int method = AttentionAsyncService::IndexOf("Decode");
  const auto call = std::make_shared<DecodeCall>(environment);
  call->Await(environment.service, method);
}

int64_t DecodeCall::PlanningCost(const grpc::ByteBuffer& message) const {
  return EnvelopeCost<v1::DecodeRequest>(message);
}

DecodeCall::ActionPointer DecodeCall::MakeAction(const grpc::ByteBuffer& message,
                                                 TimePoint arrival) {
  RequestRecord record;
  record.rpc = "Decode";
  record.arrival = arrival;
  record.request_bytes = static_cast<int64_t>(message.Length());
  ActionPointer action;
  const absl::Status made = ContainVoid(kWork, [&] { action = std::make_shared<DecodeAction>(); });
  if (!made.ok()) {
    EndUnanswered(std::move(record), made);
    return nullptr;
  }
  action->record = std::move(record);
  return action;
}

bool DecodeCall::OnMessageWithoutRoom(const grpc::ByteBuffer& message, TimePoint arrival,
                                      const absl::Status& status) {
  const ActionPointer action = MakeAction(message, arrival);
  if (action == nullptr) {
    return true;
  }
  const absl::Status read = Contain(kWork, [&] {
    v1::DecodeRequest& request = action->request.message;
    if (!ReadOutline(message, EnvelopeFieldsOf<v1::DecodeRequest>(), request)) {
      return status;
    }
    action->record.rpc = NameOf(request);
    session_.Identify(*action);
    return absl::OkStatus();
  });
  if (read.ok()) {
    Answer(action, status);
  }
  return read.ok();
}

void DecodeCall::OnMessage(const grpc::ByteBuffer& message, TimePoint arrival) {
  const ActionPointer action = MakeAction(message, arrival);
  if (action == nullptr) {
    return;
  }
  const absl::Status status = Contain(kWork, [&]() -> absl::Status {
    action->caller = message_metadata().caller;
    action->request_class = message_metadata().request_class;
    PlanAccount account(environment_.executor, AsPlanCaller(action->request_class));
    const PlanTerms terms = account.terms();
    ASSIGN_OR_RETURN(action->request, Decode<v1::DecodeRequest>(message, terms.Begin()));
    action->record.rpc = NameOf(action->request.message);
    return absl::OkStatus();
  });
  if (status.ok()) {
    Enter(action);
    return;
  }
  // The answer has the id of the action, although the whole of it could not be read.
  const absl::Status outlined = ContainVoid(kWork, [&] {
    ReadOutline(message, EnvelopeFieldsOf<v1::DecodeRequest>(), action->request.message);
    action->record.rpc = NameOf(action->request.message);
  });
  if (outlined.ok()) {
    Answer(action, status);
  } else {
    EndUnanswered(std::move(action->record), outlined);
  }
}

void DecodeCall::Enter(const ActionPointer& action) {
  if (action->request.message.has_open()) {
    if (const absl::Status status = session_.BeginOpen(); status.ok()) {
      Open(action);
    } else {
      Answer(action, status);
    }
    return;
  }
  const absl::StatusOr<SessionSequence*> sequence =
      Contain(kWork, [&] { return session_.Claim(action); });
  if (!sequence.ok()) {
    Answer(action, sequence.status());
  } else if (*sequence != nullptr) {
    RunAction(action, **sequence);
  }
}

absl::Status DecodeCall::TryOpen(const ActionPointer& action) {
  Encoder encoder;
  v1::DecodeResponse response;
  const auto end_stream = [self = weak_from_this()] {
    if (const std::shared_ptr<DuplexCall> call = self.lock()) {
      call->EndForAnother();
    }
  };
  RETURN_IF_ERROR(Contain(kWork, [&] {
    response.mutable_result()->set_max_message_bytes(environment_.unary_limit.max_bytes);
    return session_.Open(*action, environment_.models, end_stream, *response.mutable_result());
  }));
  Answer(action, absl::OkStatus(), response, encoder);
  return absl::OkStatus();
}

void DecodeCall::Open(const ActionPointer& action) {
  absl::Status status = TryOpen(action);
  if (absl::IsNotFound(status) && !action->request.message.open().resume_token().empty()) {
    PauseReading(true);  // until it is answered, so that no later action is answered before it
    if (TakesOver(action)) {
      return;
    }
    status = TryOpen(action);  // meanwhile its stream may have parked it
  }
  if (!status.ok()) {
    session_.AbandonOpen();
    Answer(action, status);
  }
  PauseReading(false);
}

bool DecodeCall::TakesOver(const ActionPointer& action) {
  const auto go_on = [this, self = shared_from_this(), action] {
    const EndDelay delay(*this);
    if (is_cancelled()) {  // another caller may wait for the session
      Answer(action, absl::CancelledError("the caller cancelled while it waited for the session"));
      PauseReading(false);
    } else {
      Open(action);
    }
  };
  bool takes_over = false;
  ContainVoid(kWork, [&] { takes_over = session_.TakeOver(*action, go_on); }).IgnoreError();
  return takes_over;
}

void DecodeCall::RunAction(const ActionPointer& action, SessionSequence& sequence) {
  action->waiting_bytes.reset();
  const v1::DecodeRequest& request = action->request.message;
  if (request.has_release()) {
    Release(action);
    return;
  }
  const absl::Status status = Contain(kWork, [&]() -> absl::Status {
    RETURN_IF_ERROR(CheckRight(action->caller, *action->session));
    return request.has_step() ? BeginStep(action, sequence) : session_.Change(request, sequence);
  });
  if (request.has_step() && !status.ok()) {
    FailStep(action, status);
  } else if (!request.has_step()) {
    Answer(action, status);
    Proceed(request.sequence());
  }
}

void DecodeCall::FailStep(const ActionPointer& action, const absl::Status& status) {
  const int64_t number = action->request.message.sequence();
  session_.EndStep(number, /*has_succeeded=*/false, 0);
  Answer(action, status);
  Proceed(number);
}

absl::StatusOr<AttendPlan> DecodeCall::PlanOnAccount(const DecodeAction& action,
                                                     SessionSequence& sequence) {
  PlanAccount account(environment_.executor, AsPlanCaller(action.request_class));
  const PlanTerms terms = account.terms();
  RETURN_IF_ERROR(terms.Check());
  ASSIGN_OR_RETURN(
      AttendPlan plan,
      PlanSessionStep({action.request.message.step(), action.request.bytes}, action.session->plan(),
                      sequence, {environment_.stream_limit, terms}));
  RETURN_IF_ERROR(PlanPrefixes(environment_.sessions, action.request_class, terms, plan));
  return plan;
}

absl::Status DecodeCall::BeginStep(const ActionPointer& action, SessionSequence& sequence) {
  ASSIGN_OR_RETURN(AttendPlan plan, PlanOnAccount(*action, sequence));
  action->tokens = plan.sequences[0].key.rows;
  const auto moved = static_cast<int64_t>(BytesToMove(sequence, action->tokens));
  if (moved <= kSmallCopyBytes) {
    return SubmitStep(action, sequence, std::move(plan));
  }
  const auto submit = [this, action, &sequence,
                       plan = std::make_shared<AttendPlan>(std::move(plan))] {
    const EndDelay delay(*this);
    const absl::Status status =
        Contain(kWork, [&] { return SubmitStep(action, sequence, std::move(*plan)); });
    if (!status.ok()) {
      FailStep(action, status);
    }
  };
  RunOnSideThread(moved, submit);
  return absl::OkStatus();
}

absl::Status DecodeCall::SubmitStep(const ActionPointer& action, SessionSequence& sequence,
                                    AttendPlan plan) {
  if (plan.TakenOf(0) > 0 &&
      !session_.SetCaches(sequence, std::move(plan.prefix.taken[0].caches)).ok()) {
    ForgoPrefixes(plan);  // no room for the tables of a prefix is no reason to refuse the step
  }
  absl::Status reserved = session_.Reserve(sequence, action->tokens - plan.TakenOf(0));
  if (absl::IsResourceExhausted(reserved) && plan.TakenOf(0) > 0) {
    // A prefix that ends within a page needs a copy of it beside the page that others have.
    ForgoPrefixes(plan);
    RETURN_IF_ERROR(session_.Empty(sequence));
    reserved = session_.Reserve(sequence, action->tokens);
  }
  RETURN_IF_ERROR(reserved);
  auto job = std::make_shared<AttendJob>(
      std::move(plan),
      JobOrigin{.size_bytes = action->record.request_bytes,
                .request_class = action->request_class,
                .arrival = action->record.arrival,
                .deadline = deadline()},
      std::make_shared<StepSink>(
          shared_from_this(), environment_.queue,
          /*is_search=*/action->request.message.step().top_logits() > 0,
          [this, action](const AttendReply& reply, const absl::Status& status,
                         const BatchStats& stats) { OnStepDone(action, reply, status, stats); }));
  const int64_t computed = job->description().tokens;
  action->record.tokens = computed > 0 ? computed : action->tokens;
  return environment_.executor.Submit(std::move(job));
}

void DecodeCall::Proceed(int64_t number) {
  const StreamSession::NextAction next = session_.Next(number);
  if (next.action == nullptr) {
    return;
  }
  RunOnSideThread(next.action->record.request_bytes, [this, next] {
    const EndDelay delay(*this);
    RunAction(next.action, *next.sequence);
  });
}

void DecodeCall::Release(const ActionPointer& action) {
  const int64_t number = action->request.message.sequence();
  const std::list<ActionPointer> waiting = session_.Release(number);
  Answer(action, absl::OkStatus());
  for (const ActionPointer& late : waiting) {  // meanwhile a fork may have the number
    Answer(late, Contain(kWork, [&] { return NoSuchSequence(number); }));
  }
}

void DecodeCall::OnAllAnswered() { session_.LeaveForGood(); }

void DecodeCall::OnEnd(bool is_clean) { session_.Leave(is_clean, metadata().caller.tenant); }

}  // namespace attention
