// The session of a stream, and the actions that wait for its sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/models/model_repository.h"
#include "core/runtime/mutex.h"
#include "proto/attention/v1/attention.pb.h"
#include "server/services/decode/decode_action.h"
#include "server/sessions/session.h"
#include "server/sessions/session_table.h"

namespace attention {

/// Returns PERMISSION_DENIED when the caller may no longer use the session's model.
absl::Status CheckRight(const Caller& caller, const Session& session);

/// Orders the actions: on one sequence they run one after the other, as they arrived. Thread-safe.
class StreamSession {
 public:
  using ActionPointer = std::shared_ptr<DecodeAction>;

  /// The table outlives this.
  explicit StreamSession(SessionTable& table) : table_(table) {}

  /// Begins to open a session. FAILED_PRECONDITION when there is one already, or an action that
  /// opens one.
  absl::Status BeginOpen();
  /// Opens a new session, or resumes a parked one, and sets it in the action. `end_stream` is
  /// SessionTable::Streamed::end. After an error it can be tried again. Errors of PlanSession and
  /// the table. REQUIRES: BeginOpen.
  absl::Status Open(DecodeAction& action, const ModelRepository& models,
                    std::function<void()> end_stream, v1::DecodeResult& result);
  /// Ends another stream that holds the session that the action is to resume. Returns false if
  /// there is none; otherwise calls `then` when Open can be tried again.
  bool TakeOver(const DecodeAction& action, std::function<void()> then);
  /// Gives up what BeginOpen began.
  void AbandonOpen();

  /// Sets the session of an action that is refused before Claim; null before Open.
  void Identify(DecodeAction& action);
  /// Returns the sequence of the action, which is then busy with it; null if the action waits for
  /// earlier ones. RESOURCE_EXHAUSTED if it may not wait.
  absl::StatusOr<SessionSequence*> Claim(const ActionPointer& action);
  struct NextAction {
    ActionPointer action;
    SessionSequence* sequence = nullptr;
  };
  /// Returns the next action that waits for the sequence, which is then busy with it; null if there
  /// is none, after which the sequence is not busy any more.
  NextAction Next(int64_t number);
  /// Forgets an ended sequence, and returns the actions that waited for it.
  std::list<ActionPointer> Release(int64_t number);

  /// Forks or truncates. Change, SetCaches, Empty, Reserve and EndStep REQUIRE that the sequence is
  /// busy with the caller's action.
  absl::Status Change(const v1::DecodeRequest& request, SessionSequence& sequence);
  /// Replaces the caches of an empty sequence by those of a step's first tokens. The sequence stays
  /// empty until the step ends. RESOURCE_EXHAUSTED without room for their tables.
  absl::Status SetCaches(SessionSequence& sequence, std::vector<KvCache> caches);
  /// Gives back what SetCaches has given to the sequence.
  absl::Status Empty(SessionSequence& sequence);
  /// Reserves room for `tokens` more tokens, if necessary by evicting prefixes, then by ending
  /// parked sessions.
  absl::Status Reserve(SessionSequence& sequence, int64_t tokens);
  /// Ends a step that has appended `tokens` tokens, or that has failed and leaves nothing behind.
  void EndStep(int64_t number, bool has_succeeded, int64_t tokens);

  /// Writes the current state of the sequence and of all sessions, which is part of every answer.
  void Describe(int64_t number, v1::DecodeResult& result);

  /// Ends a session that cannot be resumed. REQUIRES: no action is running, nor will be.
  void LeaveForGood();
  /// Ends the stream. A session that was opened to be resumed is parked for the tenant, unless the
  /// stream ended cleanly. Streams that wait for the session go on.
  void Leave(bool is_clean, const std::string& tenant);

 private:
  absl::Status OpenNew(const DecodeAction& action, const ModelRepository& models,
                       std::function<void()> end_stream, v1::DecodeResult& result);
  absl::Status Resume(const DecodeAction& action, std::function<void()> end_stream,
                      v1::DecodeResult& result);
  void ParkOrEnd(bool is_clean, const std::string& tenant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Reserves the action's bytes in the limit of waiting actions. RESOURCE_EXHAUSTED if it may not
  /// wait.
  absl::Status ReserveWaiting(DecodeAction& action) const;

  /// Takes memory of the session besides its pages.
  absl::StatusOr<std::unique_ptr<FairBudget::Part>> TakeTables(const std::string& account,
                                                               int64_t bytes) const;

  SessionTable& table_;

  Mutex mutex_;
  bool is_opening_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<SessionTable::Slot> slot_ ABSL_GUARDED_BY(mutex_);
  /// Guards the map of its sequences; the contents of a sequence belong to the action that makes it
  /// busy.
  std::shared_ptr<Session> session_ ABSL_GUARDED_BY(mutex_);
  std::string resume_token_ ABSL_GUARDED_BY(mutex_);
  /// The token by which the session was resumed, until an action shows that the caller has the new
  /// one.
  std::string earlier_token_ ABSL_GUARDED_BY(mutex_);
  /// The actions that wait, by sequence.
  std::map<int64_t, std::list<ActionPointer>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
