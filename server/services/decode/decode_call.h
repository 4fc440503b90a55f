// Decode of attention.v1: a session, action by action.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "proto/codec/encode.h"
#include "server/services/calls/duplex_call.h"
#include "server/services/calls/native_calls.h"
#include "server/services/decode/decode_action.h"
#include "server/services/decode/open_session.h"
#include "server/sessions/session_table.h"

namespace attention {

/// Of all Decode calls; outlives them.
struct DecodeEnvironment {
  AttentionAsyncService& service;
  const CallEnvironment& calls;
  SessionTable& sessions;
};

/// Actions on one sequence wait for each other in the session; the scheduler sees steps only. Those
/// that waited are carried out by side threads (Executor::side): the dispatcher plans nothing. It
/// does end steps, unless a vocabulary is to be searched, which completion threads do, or the
/// answer has many messages, which side threads make.
class DecodeCall final : public DuplexCall {
 public:
  static void Post(const DecodeEnvironment& environment);
  explicit DecodeCall(const DecodeEnvironment& environment)
      : DuplexCall(environment.calls, "Decode"), decode_(environment) {}

  /// A step has been computed, or not.
  void OnStepDone(const std::shared_ptr<DecodeAction>& action, const AttendReply& reply,
                  const absl::Status& status, const BatchStats& stats);

 private:
  using ActionPointer = std::shared_ptr<DecodeAction>;

  void PostNext() override { Post(decode_); }
  int64_t PlanningCost(const grpc::ByteBuffer& message) const override;
  void OnMessage(const grpc::ByteBuffer& message, TimePoint arrival) override;
  void OnEnd(bool is_clean) override;

  /// The sequence that the action is on, busy with it now; null: the action waits for those before
  /// it.
  absl::StatusOr<SessionSequence*> Claim(const ActionPointer& action);
  /// Now, or when the action before it on its sequence is done.
  void Enter(const ActionPointer& action);
  /// The action's part of what may wait, of all sessions. RESOURCE_EXHAUSTED: it may not wait.
  absl::Status ReserveWaiting(DecodeAction& action) const;
  /// REQUIRES: the sequence is busy with the action.
  void Carry(const ActionPointer& action, SessionSequence& sequence);
  /// Ends the stream, whose session is then kept or not as if it had broken. False when it is busy.
  bool EndIdle();
  /// In the initial metadata, which goes out with the first answer.
  void AnnounceIdleTimeout();
  /// What SessionTable::Place::SetEnd wants.
  std::function<bool()> IdleEnd();
  absl::Status Open(const DecodeAction& action, v1::DecodeResult& result);
  absl::Status Resume(const DecodeAction& action, v1::DecodeResult& result);
  /// OK: OnStepDone will be called.
  absl::Status BeginStep(const ActionPointer& action, SessionSequence& sequence);
  absl::StatusOr<AttendPlan> PlanOnAccount(const DecodeAction& action, SessionSequence& sequence);
  /// Room for so many more tokens, where need be that of sessions that are parked.
  absl::Status Reserve(SessionSequence& sequence, int64_t tokens);
  /// PERMISSION_DENIED when the session's model is not the caller's to use any more.
  static absl::Status CheckRight(const Caller& caller, const Session& session);
  /// Fork and truncate.
  absl::Status Change(const v1::DecodeRequest& request, SessionSequence& sequence);

  /// Sends the last message of the answer, `response`, with what is so now.
  void Answer(const ActionPointer& action, const absl::Status& status, v1::DecodeResponse& response,
              Encoder& encoder);
  void Answer(const ActionPointer& action, const absl::Status& status);
  absl::StatusOr<grpc::ByteBuffer> EncodeResult(const DecodeAction& action,
                                                const absl::Status& status,
                                                v1::DecodeResponse& response, Encoder& encoder);
  /// Without memory for the answer to an action: the call ends with `status`.
  void EndUnanswered(RequestRecord record, const absl::Status& status);
  /// Has another thread begin what waits for the sequence.
  void Proceed(int64_t number);
  /// What waits for the sequence finds it gone.
  void Release(const ActionPointer& action);

  const DecodeEnvironment& decode_;

  Mutex session_mutex_;
  std::shared_ptr<SessionTable::Place> place_ ABSL_GUARDED_BY(session_mutex_);
  /// The map of its sequences; what is in one belongs to the action that makes it busy.
  std::shared_ptr<Session> session_ ABSL_GUARDED_BY(session_mutex_);
  bool has_met_action_ = false;  // of OnMessage's
  std::string resume_token_ ABSL_GUARDED_BY(session_mutex_);
};

}  // namespace attention
