// The bounded queue between the RPC threads and the dispatcher.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/runtime/mutex.h"
#include "server/scheduling/job.h"
#include "server/scheduling/refusal.h"
#include "server/scheduling/request_class.h"
#include "server/scheduling/request_flows.h"
#include "server/scheduling/tenant_shares.h"
#include "server/scheduling/time_point.h"

namespace attention {

struct QueueLimits {
  int64_t max_bytes = 0;
  int64_t max_requests = 0;
  /// Of estimated work, in nanoseconds.
  int64_t max_wait_ns = std::numeric_limits<int64_t>::max();
};

/// Estimated nanoseconds of a job.
struct WorkEstimate {
  /// What it adds to a batch.
  int64_t added_ns = 0;
  /// What it takes alone; 0 when nothing is known.
  int64_t alone_ns = 0;
};

/// A job of no more estimated nanoseconds is short: it may pass longer ones that run. About as much
/// as a part of those, so that each of the two gets at least half of the time.
inline constexpr int64_t kShortNs = 10'000'000;

/// What runs now.
struct RunningBatch {
  /// By estimate.
  TimePoint until = {};
  /// Jobs pass it between its parts, at the positions that it reaches: a long batch of this
  /// priority. Null: they wait until it ends.
  std::optional<Priority> passable = {};
};

/// What waits. Nanoseconds are estimates.
struct QueueState {
  int64_t requests = 0;
  int64_t bytes = 0;
  int64_t work_ns = 0;
};

class RequestQueue;

/// Bytes of a queue's budget, until this is destroyed. The queue outlives it.
class HeldBytes {
 public:
  /// Of RequestQueue::Reserve, which has counted them.
  HeldBytes(RequestQueue& queue, const std::string& account, int64_t bytes)
      : queue_(queue), account_(account), bytes_(bytes) {}
  ~HeldBytes();
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

 private:
  RequestQueue& queue_;
  const std::string account_;
  const int64_t bytes_;
};

/// Jobs in the order of their start tags (RequestFlows): first in, first out within a flow. Jobs
/// that nobody waits for any more (IsDead) leave when they are in the way. Never blocks a producer.
/// Thread-safe.
class RequestQueue {
 public:
  using JobPointer = std::shared_ptr<Job>;

  explicit RequestQueue(const QueueLimits& limits) : limits_(limits) {}

  /// RESOURCE_EXHAUSTED when the job does not fit (an empty queue takes any job), would have to
  /// wait too long for its deadline, or its account has more than its share of a queue that fills;
  /// DEADLINE_EXCEEDED when it could not meet its deadline alone; UNAVAILABLE after Close. All but
  /// the last carry a Refusal. The job is then not kept, and not finished.
  absl::Status Push(JobPointer job, const WorkEstimate& work, TimePoint now);

  /// Bytes of the budget for what is no job yet. Errors as Push gives them to a job without work.
  absl::StatusOr<std::unique_ptr<HeldBytes>> Reserve(const RequestClass& request_class,
                                                     int64_t bytes, TimePoint now);

  /// What Push would say of a short job, of which nothing but its class and deadline is known; it
  /// is taken to be of the mean size of those that its own flow has had accepted of late.
  absl::Status CheckRoom(const RequestClass& request_class, TimePoint deadline, TimePoint now);

  /// Waits until there is a job, and then, at most until `delay` after its arrival, for
  /// `enough_tokens`; then takes those that `select` accepts, asked in order. An empty result says
  /// that the queue is closed and empty. `select` is called under the queue's lock; it must accept
  /// the first it sees. Without memory for the first job it throws, and takes none.
  struct Patience {
    std::chrono::nanoseconds delay{0};
    int64_t enough_tokens = 0;
  };
  std::vector<JobPointer> WaitAndTake(const Patience& patience,
                                      absl::FunctionRef<bool(const Job&)> select);

  /// Where a job stands.
  struct Standing {
    int64_t added_ns = 0;
    /// The tag at which it would be done, had it the machine's share that is its own.
    double finish = 0;
  };
  /// As above, of what is there now.
  std::vector<JobPointer> Take(absl::FunctionRef<bool(const Job&, const Standing&)> select);
  /// The start tag of the first of the jobs that were taken last.
  double taken_start() const;

  /// What runs has reached this tag: what comes from now on starts there, or later.
  void SetPosition(double position);

  /// Takes out what nobody waits for any more; the taker is to finish it. Looks through the queue
  /// at most once in kSweepInterval.
  std::vector<JobPointer> TakeDead(TimePoint now);
  static constexpr std::chrono::milliseconds kSweepInterval{10};

  /// Of the batch that is computed now.
  void SetRunning(const RunningBatch& running);

  /// Refuses new jobs; those that wait can still be taken.
  void Close();

  QueueState state() const;

 private:
  friend class HeldBytes;

  using Order = std::tuple<double, Priority, uint64_t>;  // start tag, ..., arrival
  struct Entry {
    JobPointer job;
    Standing standing;
    RequestFlows::Iterator flow;  // which stays while it has requests
  };

  /// What asks to be let in.
  struct Candidate {
    const RequestClass& request_class;
    int64_t bytes = 0;
    WorkEstimate work;
    TimePoint deadline;
    TimePoint now;
  };

  /// All that may refuse it; what is dead does not stand in its way.
  absl::Status Check(const Candidate& candidate) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckLive(const Candidate& candidate) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Of the tenant that a job names, in all priorities, what waits.
  QueueState HeldBy(const RequestClass& request_class) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Whether it fits at all, beside its account's other jobs, and in time.
  absl::Status CheckFit(const Candidate& candidate) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckShare(const Candidate& candidate) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckDeadline(const Candidate& candidate) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Until it would be taken.
  int64_t WaitOf(const Candidate& candidate) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RefuseFor(const Candidate& candidate, RefusalReason reason,
                         const std::string& text) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Account(const Entry& entry, int sign) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Takes it out. Throws without memory, and has changed nothing then.
  std::map<Order, Entry>::iterator Remove(std::map<Order, Entry>::iterator entry,
                                          std::vector<JobPointer>& taken)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Moves what is dead out of the way. False when there was nothing, or it was too early to look.
  bool Sweep(TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<JobPointer> TakeLocked(absl::FunctionRef<bool(const Job&, const Standing&)> select)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const QueueLimits limits_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<Order, Entry> jobs_ ABSL_GUARDED_BY(mutex_);
  std::vector<JobPointer> dead_ ABSL_GUARDED_BY(mutex_);  // taken out, to be finished
  TimePoint next_sweep_ ABSL_GUARDED_BY(mutex_);
  RequestFlows flows_ ABSL_GUARDED_BY(mutex_);
  double taken_start_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_arrival_ ABSL_GUARDED_BY(mutex_) = 0;
  TenantShares requests_ ABSL_GUARDED_BY(mutex_){limits_.max_requests};
  TenantShares bytes_ ABSL_GUARDED_BY(mutex_){limits_.max_bytes};
  TenantShares work_ns_ ABSL_GUARDED_BY(mutex_){limits_.max_wait_ns};
  int64_t tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  RunningBatch running_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace attention
