// The sessions of the server: how many, how much memory, and those that wait to be resumed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/attention/kv_cache.h"
#include "core/runtime/mutex.h"
#include "server/scheduling/fair_budget.h"
#include "server/scheduling/tenant_shares.h"
#include "server/scheduling/time_point.h"
#include "server/sessions/session.h"

namespace attention {

struct SessionLimits {
  int64_t max_sessions = 0;
  int64_t max_cache_bytes = 0;
  /// After so long without an action a session's stream is ended; infinite: never.
  absl::Duration idle_timeout = absl::InfiniteDuration();
  /// Of actions that wait for another on their sequence.
  int64_t max_waiting_bytes = 0;
};

struct SessionStatistics {
  int64_t sessions = 0;  // parked ones too
  int64_t parked = 0;
  int64_t cache_bytes = 0;
  int64_t max_cache_bytes = 0;
};

/// Thread-safe.
class SessionTable {
 public:
  using Clock = std::function<TimePoint()>;
  explicit SessionTable(const SessionLimits& limits, Clock clock = std::chrono::steady_clock::now);
  /// Forgets what is parked. REQUIRES: no session is open.
  ~SessionTable();

  /// A session's place, for as long as it lives.
  class Place {
   public:
    Place(SessionTable& table, const std::string& account);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    /// In whose shares the session counts.
    const std::string& account() const { return account_; }

    /// An action has come, or is answered.
    void Touch() { touched_ = table_.clock_(); }
    /// What ends the stream of a session that is idle; it returns false when an action is under
    /// way. Null: the session has no stream.
    void SetEnd(std::function<bool()> end);

   private:
    friend class SessionTable;
    SessionTable& table_;
    const std::string account_;
    std::atomic<TimePoint> touched_;
    std::function<bool()> end_;  // under the table's lock
  };

  /// RESOURCE_EXHAUSTED, a Refusal, when there are as many sessions as may be, or the account has
  /// its share of them, and no parked one can make room.
  absl::StatusOr<std::shared_ptr<Place>> Enter(const std::string& account);

  /// What the caches of an account's sessions take their pages from: no more than its share of all.
  std::shared_ptr<KvMemory> memory(const std::string& account);

  /// The memory of actions, of all sessions, that wait for another on their sequence.
  FairBudget& waiting_bytes() { return waiting_bytes_; }

  /// A session with its place, and what resumes it.
  struct Parked {
    std::shared_ptr<Session> session;
    std::shared_ptr<Place> place;
    /// Whose it is; empty: not known.
    std::string tenant = {};
  };
  /// Keeps it until it is taken, or its time_to_live is over. `token` is of MakeToken.
  void Park(const std::string& token, Parked parked);
  /// NOT_FOUND when nothing is parked under the token (any more), or it is another tenant's; what
  /// `check` says of the session, which then stays.
  absl::StatusOr<Parked> Take(const std::string& token, const std::string& tenant,
                              absl::FunctionRef<absl::Status(const Session&)> check);
  /// Makes room in the memory: of the account's own parked sessions and those of accounts that have
  /// more memory than it has, ends the one whose time is over first. False when there is none.
  bool EndOneParkedFor(const std::string& account);
  /// 128 bits that nobody can guess, in hexadecimal.
  static std::string MakeToken();

  /// Ends the streams of sessions that are idle. A thread of the table's calls it when it is time.
  void EndIdle();
  absl::Duration idle_timeout() const { return limits_.idle_timeout; }

  SessionStatistics statistics() const;

 private:
  struct Waiting {
    Parked parked;
    TimePoint end;
  };

  void Join(Place& place);
  void Leave(Place& place);
  /// When the first of the sessions will have been idle for too long, should nothing happen.
  TimePoint NextIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// The same as EndOneParkedFor, by any measure of what accounts have, which is asked for under
  /// the lock.
  bool EndOneParked(const std::string& account,
                    absl::FunctionRef<int64_t(const std::string&)> had_by);
  int64_t CacheBytesOf(const std::string& account) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RefusePlace(const std::string& account) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Ends those whose time is over.
  void Expire();

  const SessionLimits limits_;
  const std::shared_ptr<KvMemory> memory_;
  FairBudget waiting_bytes_;
  const Clock clock_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::set<Place*> live_ ABSL_GUARDED_BY(mutex_);
  TenantShares places_ ABSL_GUARDED_BY(mutex_){limits_.max_sessions};
  /// By account; those that no session uses are forgotten.
  std::map<std::string, std::weak_ptr<KvMemory>> parts_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread expiry_;
};

}  // namespace attention
