// The sessions of the server: their number, their memory, and those that wait to be resumed (parked
// sessions).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/attention/kv_cache.h"
#include "core/runtime/mutex.h"
#include "server/scheduling/account_shares.h"
#include "server/scheduling/fair_budget.h"
#include "server/scheduling/time_point.h"
#include "server/sessions/end_order.h"
#include "server/sessions/prefix_cache.h"
#include "server/sessions/session.h"
#include "server/sessions/token_map.h"

namespace attention {

struct SessionLimits {
  int64_t max_sessions = 0;
  int64_t max_cache_bytes = 0;
  /// The maximum memory of actions that wait for another on their sequence.
  int64_t max_waiting_bytes = 0;
  /// The maximum memory of sessions besides their pages: tables of shared pages, and options.
  int64_t max_table_bytes = 0;
  /// The maximum memory of the prefix cache, a part of max_cache_bytes; 0: it is off.
  int64_t max_prefix_bytes = 0;
};

struct SessionStatistics {
  int64_t sessions = 0;  // including parked ones
  int64_t parked = 0;
  int64_t cache_bytes = 0;
  int64_t max_cache_bytes = 0;
  // Parked sessions since the start that no longer wait, by what ended their wait.
  int64_t resumed = 0;
  int64_t expired = 0;
  int64_t evicted = 0;  // to make room
};

/// Whether parked sessions may be ended to make room.
enum class MayEndParked { kNo, kYes };

/// All sessions. Thread-safe.
class SessionTable {
 public:
  using Clock = std::function<TimePoint()>;
  explicit SessionTable(const SessionLimits& limits, Clock clock = std::chrono::steady_clock::now);
  /// Ends the parked sessions. REQUIRES: no session is open.
  ~SessionTable();

  /// One of the max_sessions that an account takes for a session, as long as the session lives.
  class Slot {
   public:
    Slot(SessionTable& table, const std::string& account) : table_(table), account_(account) {}
    ~Slot() { table_.GiveSlotBack(account_); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    /// Returns the account in whose shares the session counts.
    const std::string& account() const { return account_; }

   private:
    SessionTable& table_;
    const std::string account_;
  };

  /// Takes a slot. RESOURCE_EXHAUSTED, with a Refusal, when the limit of sessions is reached, or
  /// the account has used its share of them, and no parked session can make room.
  absl::StatusOr<std::shared_ptr<Slot>> TakeSlot(const std::string& account);

  /// Returns the memory from which the caches of an account's sessions take their pages, which is
  /// at most the account's share.
  std::shared_ptr<KvMemory> memory(const std::string& account);

  /// Returns the tokens that sequences began with. Their pages come from the memories above.
  PrefixCache& prefixes() { return prefixes_; }
  const PrefixCache& prefixes() const { return prefixes_; }
  /// Makes room in the memory: removes a part of a prefix that nobody uses, of the account or of
  /// accounts that have more memory, in sessions and prefixes. Returns false when there is none.
  bool EvictPrefixFor(const std::string& account);

  /// Returns the memory of the actions of all sessions that wait for another on their sequence.
  FairBudget& waiting_bytes() { return waiting_bytes_; }
  /// Returns the memory of all sessions besides their pages.
  FairBudget& table_bytes() { return table_bytes_; }

  /// A session with its slot, and what is needed to resume it.
  struct Parked {
    std::shared_ptr<Session> session;
    std::shared_ptr<Slot> slot;
    /// The tenant that is proven by a token or a certificate; empty: none is.
    std::string tenant = {};
    /// The token by which the session was resumed last, if its caller may not have got the new one;
    /// else empty. It resumes the session, too.
    std::string earlier_token = {};
  };
  /// Keeps the session until it is taken, or its time_to_live is over. `token` comes from
  /// MakeResumeToken, and is what protects the session: a tenant that is not proven does not count.
  /// Throws std::bad_alloc, after which the session has ended.
  void Park(const std::string& token, Parked parked);
  /// A resumable session on an open stream.
  struct Streamed {
    std::weak_ptr<const Session> session = {};
    /// The tenant that may resume it, and the token by which it was resumed: as of Parked.
    std::string tenant = {};
    std::string earlier_token = {};
    /// Ends the stream soon, so that it parks the session. Any thread, also while the stream ends
    /// and afterwards. Does not throw.
    std::function<void()> end = {};
  };
  /// Takes a parked session. NOT_FOUND when no session is parked under the token, or when it
  /// belongs to another tenant; the errors of `check`, after which the session stays parked. Does
  /// AddStreamed under `new_token` at once, unless that is empty; `streamed` need not have the
  /// session.
  absl::StatusOr<Parked> Take(const std::string& token, const std::string& tenant,
                              absl::FunctionRef<absl::Status(const Session&)> check,
                              const std::string& new_token, Streamed streamed);
  absl::StatusOr<Parked> Take(const std::string& token, const std::string& tenant,
                              absl::FunctionRef<absl::Status(const Session&)> check) {
    return Take(token, tenant, check, "", Streamed());
  }
  using Waiters = std::list<std::function<void()>>;
  /// Lets others take the session over from its stream, until RemoveStreamed.
  void AddStreamed(const std::string& token, Streamed streamed);
  /// Forgets the earlier token of a session on an open stream: its caller has the new one.
  void ForgetEarlierToken(const std::string& token);
  /// Returns the functions that wait for the session, which the caller calls. The stream has parked
  /// it, or it has ended.
  Waiters RemoveStreamed(const std::string& token);
  /// Ends the stream of a session, so that it can be taken: calls `then` when the stream has given
  /// it up. Returns false, and calls nothing, if no stream has a session that this caller could
  /// Take.
  bool TakeOver(const std::string& token, const std::string& tenant,
                absl::FunctionRef<absl::Status(const Session&)> check, std::function<void()> then);
  /// Makes room in the memory: of the parked sessions of the account and of accounts that have more
  /// memory, ends the one whose time is over first. Returns false when there is none.
  bool EndOneParkedFor(const std::string& account);
  /// Reserves room for `tokens` more tokens in each cache, if necessary by evicting prefixes that
  /// nobody uses or that share the last page, and then by ending parked sessions if it may.
  /// RESOURCE_EXHAUSTED as ReserveTokens, after which nothing is reserved. Evicts and ends nothing
  /// for what would not fit even then. If the budget has enough bytes and only a new slab cannot be
  /// mapped, it ends no session, since that need not free a slab.
  absl::Status ReserveFor(const std::string& account, std::vector<KvCache>& caches, int64_t tokens,
                          MayEndParked may_end_parked);
  /// Returns 128 random bits in hexadecimal.
  static std::string MakeResumeToken();

  SessionStatistics statistics() const;

 private:
  struct ParkedUntil {
    std::string& earlier_token() { return parked.earlier_token; }

    Parked parked;
    TimePoint end;
    SessionPages pages;
  };
  struct StreamedEntry {
    std::string& earlier_token() { return streamed.earlier_token; }

    Streamed streamed;
    Waiters waiters = {};
  };

  void GiveSlotBack(const std::string& account);
  /// Removes a parked session. Allocates no memory.
  Parked RemoveParked(TokenMap<ParkedUntil>::iterator found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Does what EndOneParkedFor does, with any measure of what accounts have. Calls the measure
  /// under the lock.
  bool EndOneParked(const std::string& account,
                    absl::FunctionRef<int64_t(const std::string&)> bytes_of);
  /// Makes the prefixes that share the last page of a session's caches give it up, if the tokens
  /// could fit without a copy of it: a session must not need more room than it would without
  /// prefixes. Returns whether there were any. A request without a session, which may end no parked
  /// one, forgoes its prefix instead.
  bool StopSharing(const std::string& account, const std::vector<KvCache>& caches, int64_t tokens,
                   MayEndParked may_end_parked);
  /// Returns whether the account could have so much more when all prefixes, and the parked sessions
  /// if they may be ended, had made room.
  bool CouldFit(const std::string& account, const KvGrowth& growth, MayEndParked may_end_parked);
  int64_t CacheBytesOf(const std::string& account) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RefuseSlot(const std::string& account) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Ends the parked sessions whose time is over, and gives back the memory of removed prefixes.
  void Expire();

  const SessionLimits limits_;
  const std::shared_ptr<KvMemory> memory_;
  FairBudget waiting_bytes_;
  FairBudget table_bytes_;
  PrefixCache prefixes_;
  const Clock clock_;
  /// Held by who reserves pages. Two at once could both be refused, each for the pages that the
  /// other has reserved or evicted so far.
  Mutex reserving_;
  mutable Mutex mutex_ ABSL_ACQUIRED_AFTER(reserving_);
  CondVar changed_;
  AccountShares slots_ ABSL_GUARDED_BY(mutex_){limits_.max_sessions};
  /// The memories by account; those that no session uses are removed.
  std::map<std::string, std::weak_ptr<KvMemory>> parts_ ABSL_GUARDED_BY(mutex_);
  TokenMap<ParkedUntil> parked_ ABSL_GUARDED_BY(mutex_);
  EndOrder ends_ ABSL_GUARDED_BY(mutex_);  // of parked_
  TokenMap<StreamedEntry> streamed_ ABSL_GUARDED_BY(mutex_);
  int64_t resumed_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t expired_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t evicted_ ABSL_GUARDED_BY(mutex_) = 0;
  /// When Expire looks at the parked sessions next, unless it is woken.
  TimePoint next_end_ ABSL_GUARDED_BY(mutex_) = TimePoint::max();
  bool has_removed_prefixes_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread expiry_;
};

}  // namespace attention
