// The sessions of the server: how many, how much memory, and those that wait to be resumed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/attention/kv_cache.h"
#include "core/runtime/mutex.h"
#include "server/scheduling/job.h"
#include "server/sessions/session.h"

namespace attention {

struct SessionLimits {
  int64_t max_sessions = 0;
  int64_t max_cache_bytes = 0;
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
  explicit SessionTable(const SessionLimits& limits);
  /// Forgets what is parked. REQUIRES: no session is open.
  ~SessionTable();

  /// A session's place, for as long as it lives.
  class Place {
   public:
    explicit Place(SessionTable& table) : table_(table) {}
    ~Place() { table_.Leave(); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    SessionTable& table_;
  };

  /// RESOURCE_EXHAUSTED when there are as many sessions as may be, and none of them is parked.
  absl::StatusOr<std::shared_ptr<Place>> Enter();

  /// What all caches take their pages from.
  const std::shared_ptr<KvMemory>& memory() const { return memory_; }

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
  /// Makes room: ends the one whose time is over first. False when none is parked.
  bool EndOneParked();
  /// 128 bits that nobody can guess, in hexadecimal.
  static std::string MakeToken();

  SessionStatistics statistics() const;

 private:
  struct Waiting {
    Parked parked;
    TimePoint end;
  };

  void Leave();
  /// Ends those whose time is over.
  void Expire();

  const SessionLimits limits_;
  const std::shared_ptr<KvMemory> memory_;
  mutable Mutex mutex_;
  CondVar changed_;
  int64_t sessions_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread expiry_;
};

}  // namespace attention
