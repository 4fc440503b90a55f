// Decode of attention.v1: a session, action by action.
#pragma once

#include <memory>

#include "proto/codec/encode.h"
#include "server/services/calls/duplex_call.h"
#include "server/services/calls/native_calls.h"
#include "server/services/decode/decode_action.h"
#include "server/services/decode/stream_session.h"
#include "server/sessions/session_table.h"

namespace attention {

/// Runs actions on one sequence one after the other; the scheduler gets steps only. Side threads
/// (Executor::side) run actions that have waited, so the dispatcher plans nothing. It does end
/// steps, unless StepSink finds that this takes long.
class DecodeCall final : public DuplexCall {
 public:
  static void Post(const NativeEnvironment& environment);
  explicit DecodeCall(const NativeEnvironment& environment)
      : DuplexCall(environment.calls, "Decode"),
        native_(environment),
        session_(environment.calls.sessions) {}

 private:
  using ActionPointer = StreamSession::ActionPointer;

  void PostNext() override { Post(native_); }
  int64_t PlanningCost(const grpc::ByteBuffer& message) const override;
  void OnMessage(const grpc::ByteBuffer& message, TimePoint arrival) override;
  bool OnMessageWithoutRoom(const grpc::ByteBuffer& message, TimePoint arrival,
                            const absl::Status& status) override;
  void OnAllAnswered() override;
  void OnEnd(bool is_clean) override;

  /// Returns null without memory for the action; the call then ends.
  ActionPointer MakeAction(const grpc::ByteBuffer& message, TimePoint arrival);

  /// Runs the action now, or after the action before it on its sequence.
  void Enter(const ActionPointer& action);
  /// Opens or resumes the session. A session that another stream holds is taken over from it: the
  /// action is answered when that stream has ended, and no message is read meanwhile. REQUIRES:
  /// StreamSession::BeginOpen.
  void Open(const ActionPointer& action);
  /// Opens or resumes the session, and answers the action if that succeeds.
  absl::Status TryOpen(const ActionPointer& action);
  /// Begins to take a session over. Returns false if no other stream holds it.
  bool TakesOver(const ActionPointer& action);
  /// Runs the action. REQUIRES: the sequence is busy with it.
  void RunAction(const ActionPointer& action, SessionSequence& sequence);
  /// Plans a step, and submits it: on a side thread, if pages of its sequence must be copied to
  /// larger ones. If OK, OnStepDone or FailStep will be called.
  absl::Status BeginStep(const ActionPointer& action, SessionSequence& sequence);
  /// Submits a step. If OK, OnStepDone will be called.
  absl::Status SubmitStep(const ActionPointer& action, SessionSequence& sequence, AttendPlan plan);
  /// Answers a step that was not submitted.
  void FailStep(const ActionPointer& action, const absl::Status& status);
  absl::StatusOr<AttendPlan> PlanOnAccount(const DecodeAction& action, SessionSequence& sequence);
  /// Answers a step that was computed, or has failed.
  void OnStepDone(const ActionPointer& action, const AttendReply& reply, const absl::Status& status,
                  const BatchStats& stats);

  /// Sends the last message of the answer, `response`, with the current state.
  void Answer(const ActionPointer& action, const absl::Status& status, v1::DecodeResponse& response,
              Encoder& encoder);
  void Answer(const ActionPointer& action, const absl::Status& status);
  absl::StatusOr<grpc::ByteBuffer> EncodeResult(const DecodeAction& action,
                                                const absl::Status& status,
                                                v1::DecodeResponse& response, Encoder& encoder);
  /// Ends the call with `status` when there is no memory for the answer to an action.
  void EndUnanswered(RequestRecord record, const absl::Status& status);
  /// Lets a side thread begin the next action that waits for the sequence.
  void Proceed(int64_t number);
  /// Ends the sequence; the actions that wait for it get NOT_FOUND.
  void Release(const ActionPointer& action);

  const NativeEnvironment& native_;
  StreamSession session_;
};

}  // namespace attention
