// The session of a stream, and whose turn it is on each of its sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/models/model_repository.h"
#include "core/runtime/mutex.h"
#include "proto/attention/v1/attention.pb.h"
#include "server/services/decode/decode_action.h"
#include "server/sessions/session.h"
#include "server/sessions/session_table.h"

namespace attention {

/// PERMISSION_DENIED when the session's model is not the caller's to use any more.
absl::Status CheckRight(const Caller& caller, const Session& session);

/// Actions on one sequence have their turn one after the other, as they came. Thread-safe.
class StreamSession {
 public:
  using ActionPointer = std::shared_ptr<DecodeAction>;

  /// The table outlives this.
  explicit StreamSession(SessionTable& table) : table_(table) {}

  /// What `open` asks for: a new session, or one that is parked. `idle_end` is as
  /// SessionTable::Place::SetEnd wants it. FAILED_PRECONDITION when there is one already; errors of
  /// PlanSession and the table.
  absl::Status Open(const DecodeAction& action, const ModelRepository& models,
                    std::function<bool()> idle_end, v1::DecodeResult& result);

  /// The sequence that the action is on, busy with it now; null: the action waits for those before
  /// it. RESOURCE_EXHAUSTED: it may not wait.
  absl::StatusOr<SessionSequence*> Claim(const ActionPointer& action);
  struct Turn {
    ActionPointer action;
    SessionSequence* sequence = nullptr;
  };
  /// What waits for the sequence, which is busy with it now; null: nothing does, and it is not busy
  /// any more.
  Turn Next(int64_t number);
  /// The sequence is gone: returns what waited for it.
  std::list<ActionPointer> Release(int64_t number);

  /// Of all these: REQUIRES the sequence to be busy with the caller's action.
  /// Fork and truncate.
  absl::Status Change(const v1::DecodeRequest& request, SessionSequence& sequence);
  /// Room for so many more tokens, where need be that of sessions that are parked.
  absl::Status Reserve(SessionSequence& sequence, int64_t tokens);
  /// A step has appended so many tokens, or has failed and leaves nothing behind.
  void EndStep(int64_t number, bool has_succeeded, int64_t tokens);

  /// What is so now, of the sequence and of all sessions. An action is answered with it.
  void Describe(int64_t number, v1::DecodeResult& result);

  /// The stream has ended. One that was opened to be resumed is parked for the tenant, unless it
  /// ended as it should.
  void Leave(bool is_clean, const std::string& tenant);

 private:
  absl::Status OpenNew(const DecodeAction& action, const ModelRepository& models,
                       std::function<bool()> idle_end, v1::DecodeResult& result);
  absl::Status Resume(const DecodeAction& action, std::function<bool()> idle_end,
                      v1::DecodeResult& result);
  /// The action's part of what may wait, of all sessions. RESOURCE_EXHAUSTED: it may not wait.
  absl::Status ReserveWaiting(DecodeAction& action) const;

  SessionTable& table_;

  Mutex mutex_;
  std::shared_ptr<SessionTable::Place> place_ ABSL_GUARDED_BY(mutex_);
  /// The map of its sequences; what is in one belongs to the action that makes it busy.
  std::shared_ptr<Session> session_ ABSL_GUARDED_BY(mutex_);
  std::string resume_token_ ABSL_GUARDED_BY(mutex_);
  /// By sequence, those that wait for the action that makes it busy.
  std::map<int64_t, std::list<ActionPointer>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
