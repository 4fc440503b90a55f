// The bounded queue between the completion threads and the dispatcher.
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
#include "server/scheduling/account_shares.h"
#include "server/scheduling/job.h"
#include "server/scheduling/refusal.h"
#include "server/scheduling/request_class.h"
#include "server/scheduling/request_flows.h"
#include "server/scheduling/time_point.h"
#include "server/scheduling/wait_spare.h"

namespace attention {

struct QueueLimits {
  int64_t max_bytes = 0;
  int64_t max_requests = 0;
  /// The maximum estimated work, in nanoseconds. One job counts as at most 4/5 of it,
  /// the share of a tenant, so that a job that is longer leaves room for others.
  int64_t max_wait_ns = std::numeric_limits<int64_t>::max();
};

/// The estimate of a job, in nanoseconds.
struct WorkEstimate {
  /// The time that it adds to a batch.
  int64_t added_ns = 0;
  /// The time that it takes alone; 0 when it is not known, or when the job is tried whatever the
  /// estimate (DeadlineProbes).
  int64_t alone_ns = 0;
  /// The time of the largest batch that it may be in; 0 when it is not known.
  int64_t batch_ns = 0;
};

/// A job whose estimate is at most this is short: it may pass longer jobs that run. This is about a
/// slice of those, so that each of the two gets at least half of the time.
inline constexpr int64_t kShortNs = 10'000'000;

/// The running batch.
struct RunningBatch {
  /// The estimated end.
  TimePoint until = {};
  /// The priority of a long batch, which lets jobs pass between its slices, at the tags that it
  /// reaches. Null: jobs wait until it ends.
  std::optional<Priority> passable = {};
  /// The key of a batch whose jobs share a model's weights: jobs of this key wait until it ends.
  std::optional<BatchKey> shared_key = {};
};

/// The waiting jobs. Nanoseconds are estimates.
struct QueueState {
  int64_t requests = 0;
  int64_t bytes = 0;
  int64_t work_ns = 0;
  int64_t counted_ns = 0;  // towards QueueLimits::max_wait_ns
};

class RequestQueue;

/// Bytes of a queue's budget, held until this is destroyed. The queue outlives it.
class HeldBytes {
 public:
  /// RequestQueue::Reserve calls this, and counts the bytes then.
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

/// Holds jobs in the order of their start tags (RequestFlows): first in, first out within a flow.
/// Jobs that would be computed in vain (IsLost) leave when others need their room. Never blocks a
/// producer. Thread-safe.
class RequestQueue {
 public:
  using JobPointer = std::shared_ptr<Job>;

  explicit RequestQueue(const QueueLimits& limits) : limits_(limits) {}

  /// Queues the job. RESOURCE_EXHAUSTED when the job does not fit (an empty queue takes any job),
  /// would wait too long for its deadline, or its account has more than its share of a filling
  /// queue; DEADLINE_EXCEEDED when it could not meet its deadline alone; UNAVAILABLE after Close.
  /// All but the last carry a Refusal. A refused job is neither kept nor finished.
  absl::Status Push(JobPointer job, const WorkEstimate& work, TimePoint now);
  /// Queues a job again that was taken from the queue, even if others have filled its room
  /// meanwhile. UNAVAILABLE after Close.
  absl::Status PushAgain(JobPointer job, const WorkEstimate& work);

  /// Takes bytes of the budget for work that is no job yet. Returns the errors that Push gives to a
  /// job without operations.
  absl::StatusOr<std::unique_ptr<HeldBytes>> Reserve(const RequestClass& request_class,
                                                     int64_t bytes, TimePoint now);

  /// Returns the error that Push would give to a job of which only class and deadline are known:
  /// one with the mean size and work of the recently accepted jobs of its flow, which could not be
  /// answered by its deadline if it took no time at all.
  absl::Status CheckRoom(const RequestClass& request_class, TimePoint deadline, TimePoint now);

  /// How long to wait for further jobs.
  struct Patience {
    /// The maximum time after the arrival of the oldest job. The wait ends earlier for the deadline
    /// of any waiting job.
    std::chrono::nanoseconds delay{0};
    /// The number of waiting rows (JobDescription::num_rows) that ends the wait.
    int64_t enough_rows = 0;
  };
  /// Waits for a job, and then for further ones as `patience` says. Then takes the jobs that
  /// `select` accepts; it is called for one job after the other, in order, under the queue's lock,
  /// and must accept the first. An empty result means that the queue is closed and empty. Throws
  /// when there is no memory for the first job, and then takes none.
  std::vector<JobPointer> WaitAndTake(const Patience& patience,
                                      absl::FunctionRef<bool(const Job&)> select);

  /// The estimate of a waiting job, and its finish tag.
  struct Standing {
    /// The time that the job adds to a batch.
    int64_t added_ns = 0;
    /// Its finish tag: when it would be done if its flow always had its share of the machine.
    double finish = 0;
  };
  /// Takes the waiting jobs that `select` accepts, without waiting.
  std::vector<JobPointer> Take(absl::FunctionRef<bool(const Job&, const Standing&)> select);
  /// Returns the start tag of the first of the jobs that were taken last.
  double taken_start() const;

  /// Sets the virtual time, the tag that the running batch has reached: later jobs start there, or
  /// after it.
  void SetVirtualTime(double tag);

  /// Takes the jobs that would be computed in vain, which the caller of this function finishes.
  /// Searches the queue at most once in kSweepInterval.
  std::vector<JobPointer> TakeLost(TimePoint now);
  static constexpr std::chrono::milliseconds kSweepInterval{10};

  /// Counts the end of a job that was taken: the more are late, the more time to spare later jobs
  /// of the account need. Does not throw.
  void CountEnd(const Job& job, bool is_late, TimePoint now);

  /// Sets the batch that is being computed.
  void SetRunning(const RunningBatch& running);

  /// Refuses new jobs. Waiting jobs can still be taken.
  void Close();

  QueueState state() const;

 private:
  friend class HeldBytes;

  using Order = std::tuple<double, Priority, uint64_t>;  // start tag, priority, arrival
  struct Entry {
    JobPointer job;
    Standing standing;
    RequestFlows::Iterator flow;  // valid as long as the flow has jobs
  };

  /// A job that asks for admission.
  struct Candidate {
    const RequestClass& request_class;
    const BatchKey* key = nullptr;  // null: not known
    int64_t bytes = 0;
    WorkEstimate work;
    TimePoint deadline;
    TimePoint now;
  };

  /// Applies all checks. If one fails, jobs that would be computed in vain leave, and the
  /// checks are applied again.
  absl::Status Check(const Candidate& candidate) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Applies all checks to the queue as it is.
  absl::Status CheckOnce(const Candidate& candidate) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Returns the sums over the waiting jobs, in all priorities, of the tenant that a job names.
  QueueState HeldBy(const RequestClass& request_class) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Check that the job fits, beside the other jobs of its account, and in time.
  absl::Status CheckFit(const Candidate& candidate) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckShare(const Candidate& candidate) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckDeadline(const Candidate& candidate) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Returns the time until the job would be taken.
  int64_t WaitOf(const Candidate& candidate) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RefuseFor(const Candidate& candidate, RefusalReason reason,
                         const std::string& text) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Returns the refusal with a later retry: after the jobs of the account that were refused before
  /// it, which may return first.
  absl::Status SpreadRetries(const Candidate& candidate, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Returns what a job counts towards max_wait_ns.
  int64_t CountedNs(int64_t added_ns) const;
  void Insert(JobPointer job, const WorkEstimate& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Adds the job to all counts with sign 1, and removes it with sign -1.
  void CountEntry(const Entry& entry, int sign) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Moves the job from the queue to `taken`. Throws when there is no memory; then nothing has
  /// changed.
  std::map<Order, Entry>::iterator Remove(std::map<Order, Entry>::iterator entry,
                                          std::vector<JobPointer>& taken)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Removes the jobs that would be computed in vain. Returns false when there were none, or when
  /// it was too early to search.
  bool Sweep(TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<JobPointer> TakeLocked(absl::FunctionRef<bool(const Job&, const Standing&)> select)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const QueueLimits limits_;

  mutable Mutex mutex_;
  /// When the next refused job of an account may return.
  std::map<std::string, TimePoint> next_retries_ ABSL_GUARDED_BY(mutex_);
  CondVar changed_;
  std::map<Order, Entry> jobs_ ABSL_GUARDED_BY(mutex_);
  std::vector<JobPointer> lost_ ABSL_GUARDED_BY(mutex_);  // removed, to be finished
  TimePoint next_sweep_ ABSL_GUARDED_BY(mutex_);
  RequestFlows flows_ ABSL_GUARDED_BY(mutex_);
  double taken_start_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_arrival_ ABSL_GUARDED_BY(mutex_) = 0;
  AccountShares requests_ ABSL_GUARDED_BY(mutex_){limits_.max_requests};
  AccountShares bytes_ ABSL_GUARDED_BY(mutex_){limits_.max_bytes};
  AccountShares work_ns_ ABSL_GUARDED_BY(mutex_){limits_.max_wait_ns};
  AccountShares counted_ns_ ABSL_GUARDED_BY(mutex_){limits_.max_wait_ns};
  int64_t rows_ ABSL_GUARDED_BY(mutex_) = 0;     // JobDescription::num_rows
  TimePoint delay_end_ ABSL_GUARDED_BY(mutex_);  // until when WaitAndTake waits for jobs
  std::chrono::nanoseconds delay_ ABSL_GUARDED_BY(mutex_){0};  // Patience::delay of the taker
  WaitSpare spare_ ABSL_GUARDED_BY(mutex_);
  RunningBatch running_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace attention
