// Decode of attention.v1: a session, action by action.
#pragma once

#include <functional>
#include <memory>

#include "proto/codec/encode.h"
#include "server/services/calls/duplex_call.h"
#include "server/services/calls/native_calls.h"
#include "server/services/decode/decode_action.h"
#include "server/services/decode/stream_session.h"
#include "server/sessions/session_table.h"

namespace attention {

/// Of all Decode calls; outlives them.
struct DecodeEnvironment {
  AttentionAsyncService& service;
  const CallEnvironment& calls;
  SessionTable& sessions;
};

/// Actions on one sequence have their turn one after the other; the scheduler sees steps only.
/// Those that waited are carried out by side threads (Executor::side): the dispatcher plans
/// nothing. It does end steps, unless StepSink finds that this takes long.
class DecodeCall final : public DuplexCall {
 public:
  static void Post(const DecodeEnvironment& environment);
  explicit DecodeCall(const DecodeEnvironment& environment)
      : DuplexCall(environment.calls, "Decode"),
        decode_(environment),
        session_(environment.sessions) {}

 private:
  using ActionPointer = StreamSession::ActionPointer;

  void PostNext() override { Post(decode_); }
  int64_t PlanningCost(const grpc::ByteBuffer& message) const override;
  void OnMessage(const grpc::ByteBuffer& message, TimePoint arrival) override;
  void OnEnd(bool is_clean) override;

  /// Now, or when the action before it on its sequence is done.
  void Enter(const ActionPointer& action);
  /// REQUIRES: the sequence is busy with the action.
  void Carry(const ActionPointer& action, SessionSequence& sequence);
  /// Ends the stream, whose session is then kept or not as if it had broken. False when it is busy.
  bool EndIdle();
  /// In the initial metadata, which goes out with the first answer.
  void AnnounceIdleTimeout();
  /// What SessionTable::Place::SetEnd wants.
  std::function<bool()> IdleEnd();
  /// OK: OnStepDone will be called.
  absl::Status BeginStep(const ActionPointer& action, SessionSequence& sequence);
  absl::StatusOr<AttendPlan> PlanOnAccount(const DecodeAction& action, SessionSequence& sequence);
  /// A step has been computed, or not.
  void OnStepDone(const ActionPointer& action, const AttendReply& reply, const absl::Status& status,
                  const BatchStats& stats);

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
  StreamSession session_;
  bool has_met_action_ = false;  // of OnMessage's
};

}  // namespace attention
