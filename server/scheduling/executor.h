// The dispatcher: one thread that forms batches and runs them.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "core/runtime/mutex.h"
#include "core/runtime/thread_pool.h"
#include "server/scheduling/batch_runner.h"
#include "server/scheduling/batcher.h"
#include "server/scheduling/bucket_counts.h"
#include "server/scheduling/deadline_probes.h"
#include "server/scheduling/reply_budget.h"
#include "server/scheduling/request_queue.h"
#include "server/scheduling/side_pool.h"
#include "server/scheduling/speed_estimate.h"
#include "server/scheduling/stall_watch.h"
#include "server/scheduling/thread_priority.h"

namespace attention {

struct ExecutorOptions {
  /// The number of compute threads, including the dispatcher.
  int num_threads = 1;
  BatchLimits batch = {};
  QueueLimits queue = {};
  int64_t max_reply_bytes = std::numeric_limits<int64_t>::max();
  std::chrono::nanoseconds reply_patience = std::chrono::seconds(30);
  /// What a thread may compute in a nanosecond, for estimates of batches that never ran.
  double flops_per_ns = FastFlopsPerNs(CurrentAbilities());
  /// The clock, which any thread may call.
  std::function<TimePoint()> clock = std::chrono::steady_clock::now;
};

inline constexpr int64_t kBatchRowsBounds[] = {1,   2,   4,    8,    16,   32,   64,   128,
                                               256, 512, 1024, 2048, 4096, 8192, 16384};
inline constexpr int64_t kBatchRequestsBounds[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

/// Counts since the start, except for the state of the queue.
struct ExecutorStatistics {
  int64_t batches = 0;
  int64_t batch_requests = 0;
  int64_t batch_tokens = 0;
  /// The sum of BatchOutcome::used_ns.
  int64_t busy_ns = 0;
  /// The batches that ran between the slices of a longer one.
  int64_t interleaved_batches = 0;
  /// The bytes that were copied into batches: tensors of requests, or embedded tokens.
  int64_t copied_bytes = 0;
  /// Histograms of the rows and of the requests of a batch.
  BucketCounts rows{kBatchRowsBounds};
  BucketCounts requests{kBatchRequestsBounds};
  /// The requests in the running batches.
  int64_t running_requests = 0;
  /// The memory of replies that are not sent yet, computed or not.
  int64_t reply_bytes = 0;
  int64_t max_reply_bytes = 0;
  QueueState queue;
};

/// Holds queue, batcher and compute threads. Thread-safe.
class Executor {
 public:
  explicit Executor(const ExecutorOptions& options);
  /// Calls Stop.
  ~Executor();

  /// Queues the job. Every accepted job is finished exactly once. Returns the errors of
  /// RequestQueue::Push, and RESOURCE_EXHAUSTED when the reply does not fit besides the others; a
  /// refused job is not finished.
  absl::Status Submit(std::shared_ptr<Job> job);

  /// Returns the error that Submit would give to a job of which only class and deadline are known:
  /// one with the mean size and work of the recently accepted jobs of its flow, which could not be
  /// answered by its deadline if it took no time at all.
  absl::Status CheckRoom(const RequestClass& request_class, TimePoint deadline);

  /// Reserves memory of the queue. Returns the errors of RequestQueue::Reserve.
  absl::StatusOr<std::unique_ptr<HeldBytes>> Reserve(const RequestClass& request_class,
                                                     int64_t bytes);

  /// Returns the pool for long work besides computing.
  SidePool& side() { return side_; }

  ExecutorStatistics statistics() const;
  /// Returns how far the compute threads are, for a StallWatch.
  Progress progress() const;
  int num_threads() const { return pool_.num_threads(); }

  /// Finishes all accepted jobs, those that are not computed yet with UNAVAILABLE, and returns when
  /// all are finished. REQUIRES: one thread calls this at a time.
  void Stop();

 private:
  /// The number of batches in memory at once: a long one that was interrupted, a long one that
  /// passes it and is interrupted in turn, and one that is not long.
  static constexpr size_t kLevels = 3;

  /// Queues a job again whose description has changed, or ends it with the error of the queue.
  void Requeue(std::shared_ptr<Job> job);
  void Dispatch();
  /// Runs the next batch. Returns false when the queue is closed and empty.
  bool RunNextBatch();
  /// Runs the batch, while the batches of the levels below wait until it ends.
  void RunAt(size_t level, const Batch& batch);
  /// Runs one batch between two slices of the batch of the level below, `interrupted`, which has
  /// used `used_ns` of the machine. Returns true when the queue's order may have another such
  /// batch.
  bool LetOnePass(size_t level, const Batch& interrupted, int64_t used_ns);
  /// Returns the time that the batch should take.
  std::chrono::nanoseconds ExpectedTime(const Batch& batch) const;
  /// Updates estimates and counts with the measurements of the batch.
  void Count(const Batch& batch, const BatchOutcome& outcome);

  /// Returns RESOURCE_EXHAUSTED for a reply of this size that does not fit.
  absl::Status RefuseReply(const std::string& account, int64_t bytes) const;

  const std::function<TimePoint()> clock_;
  SpeedEstimate speed_;
  DeadlineProbes probes_;
  ReplyBudget replies_;
  RequestQueue queue_;
  Batcher batcher_;
  /// The scheduling policy that the compute threads inherit; destroyed after they have started.
  std::optional<LowPriorityThreads> policy_{std::in_place};
  ThreadPool pool_;
  std::array<BatchRunner, kLevels> runners_;
  mutable Mutex mutex_;
  ExecutorStatistics statistics_ ABSL_GUARDED_BY(mutex_);
  SidePool side_;  // its tasks submit jobs until it is destroyed
  std::thread dispatcher_;
};

}  // namespace attention
