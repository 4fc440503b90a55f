// The bounded queue between the RPC threads and the dispatcher.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/runtime/mutex.h"
#include "server/scheduling/job.h"
#include "server/scheduling/refusal.h"

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

/// What waits. Nanoseconds are estimates.
struct QueueState {
  int64_t requests = 0;
  int64_t bytes = 0;
  int64_t work_ns = 0;
};

/// Jobs in the order of their start tags (start-time fair queueing: Goyal, Vin & Cheng 1996), over
/// flows that are the tenants of each priority, in units of estimated work: first in, first out
/// within a flow. Never blocks a producer. Thread-safe.
class RequestQueue {
 public:
  using JobPointer = std::shared_ptr<Job>;

  explicit RequestQueue(const QueueLimits& limits) : limits_(limits) {}

  /// RESOURCE_EXHAUSTED when the job does not fit (an empty queue takes any job), would have to
  /// wait too long for its deadline, or its tenant has more than its share of a queue that fills;
  /// DEADLINE_EXCEEDED when it could not meet its deadline alone; UNAVAILABLE after Close. All but
  /// the last carry a Refusal. The job is then not kept, and not finished.
  absl::Status Push(JobPointer job, const WorkEstimate& work, TimePoint now);

  /// What Push would say of a short job of the mean size, of which nothing but its class and
  /// deadline is known.
  absl::Status CheckRoom(const RequestClass& request_class, TimePoint deadline, TimePoint now);

  /// Waits until there is a job, and then, at most until `delay` after its arrival, for
  /// `enough_tokens`; then takes those that `select` accepts, asked in order. An empty result says
  /// that the queue is closed and empty. `select` is called under the queue's lock; it must accept
  /// the first it sees.
  struct Patience {
    std::chrono::nanoseconds delay{0};
    int64_t enough_tokens = 0;
  };
  std::vector<JobPointer> WaitAndTake(const Patience& patience,
                                      absl::FunctionRef<bool(const Job&)> select);
  /// As above, of what is there now. `select` also hears the job's estimate.
  std::vector<JobPointer> Take(absl::FunctionRef<bool(const Job&, int64_t added_ns)> select);

  /// Until when what runs now will take, by estimate.
  void SetBusyUntil(TimePoint end);

  /// Refuses new jobs; those that wait can still be taken.
  void Close();

  QueueState state() const;

 private:
  struct Flow {
    double last_finish = 0;  // tag
    int64_t work_ns = 0;     // of what waits
    int64_t short_ns = 0;    // of that, of short jobs
    int64_t bytes = 0;
    int64_t requests = 0;
  };
  using FlowKey = std::pair<Priority, std::string>;
  using Order = std::tuple<double, Priority, uint64_t>;  // start tag, ..., arrival
  struct Entry {
    JobPointer job;
    int64_t added_ns = 0;
  };

  /// What asks to be let in.
  struct Candidate {
    const RequestClass& request_class;
    int64_t bytes = 0;
    WorkEstimate work;
    TimePoint deadline;
    TimePoint now;
  };

  /// Whether it fits at all, beside its tenant's other jobs, and in time.
  absl::Status CheckFit(const Candidate& candidate) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckShare(const Candidate& candidate) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckDeadline(const Candidate& candidate) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Until it would be taken.
  int64_t WaitOf(const Candidate& candidate) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RefuseFor(const Candidate& candidate, RefusalReason reason,
                         const std::string& text) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Account(const RequestClass& request_class, const Entry& entry, int sign)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<JobPointer> TakeLocked(absl::FunctionRef<bool(const Job&, int64_t)> select)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const QueueLimits limits_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<Order, Entry> jobs_ ABSL_GUARDED_BY(mutex_);
  std::map<FlowKey, Flow> flows_ ABSL_GUARDED_BY(mutex_);  // those with jobs, or tags to come
  double virtual_time_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_arrival_ ABSL_GUARDED_BY(mutex_) = 0;
  QueueState state_ ABSL_GUARDED_BY(mutex_);
  int64_t tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  TimePoint busy_until_ ABSL_GUARDED_BY(mutex_);
  double mean_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // of jobs of late
  double mean_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace attention
