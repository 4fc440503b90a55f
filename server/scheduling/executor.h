// The dispatcher: one thread that takes batches and runs them.
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
#include "server/observability/bucket_counts.h"
#include "server/scheduling/batch_policy.h"
#include "server/scheduling/batch_runner.h"
#include "server/scheduling/batcher.h"
#include "server/scheduling/deadline_probes.h"
#include "server/scheduling/reply_budget.h"
#include "server/scheduling/request_queue.h"
#include "server/scheduling/side_pool.h"
#include "server/scheduling/speed_estimate.h"

namespace attention {

struct ExecutorOptions {
  /// Threads that compute, the dispatcher's own among them.
  int num_threads = 1;
  BatchLimits batch = {};
  QueueLimits queue = {};
  int64_t max_reply_bytes = std::numeric_limits<int64_t>::max();
  std::chrono::nanoseconds reply_patience = std::chrono::seconds(30);
  /// Called by any thread.
  std::function<TimePoint()> clock = std::chrono::steady_clock::now;
};

inline constexpr int64_t kBatchRowsBounds[] = {1,   2,   4,    8,    16,   32,   64,   128,
                                               256, 512, 1024, 2048, 4096, 8192, 16384};
inline constexpr int64_t kBatchRequestsBounds[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

/// Counts since the start, but for the queue's state.
struct ExecutorStatistics {
  int64_t batches = 0;
  int64_t batch_requests = 0;
  int64_t batch_tokens = 0;
  int64_t padding_tokens = 0;
  int64_t busy_ns = 0;
  /// Batches that ran between the parts of a longer one.
  int64_t interleaved_batches = 0;
  /// Bytes that were copied into batches: of requests' tensors, or embedded tokens.
  int64_t copied_bytes = 0;
  /// Of batches: their rows, and their requests.
  BucketCounts rows{kBatchRowsBounds};
  BucketCounts requests{kBatchRequestsBounds};
  /// In the batches that run now.
  int64_t running_requests = 0;
  /// Of replies that will be computed, are, or are on their way out.
  int64_t reply_bytes = 0;
  int64_t max_reply_bytes = 0;
  QueueState queue;
};

/// Queue, batcher, compute threads. Thread-safe.
class Executor {
 public:
  explicit Executor(const ExecutorOptions& options);
  /// Stops.
  ~Executor();

  /// Every accepted job is finished, once. Errors are RequestQueue::Push's, and RESOURCE_EXHAUSTED
  /// when its reply does not fit beside the others; a refused job is not finished.
  absl::Status Submit(std::shared_ptr<Job> job);

  /// Errors that Submit would give a job of this class and deadline, whatever it asks for.
  absl::Status CheckRoom(const RequestClass& request_class, TimePoint deadline);

  /// Errors are RequestQueue::Reserve's.
  absl::StatusOr<std::unique_ptr<HeldBytes>> Reserve(const RequestClass& request_class,
                                                     int64_t bytes);

  /// For what takes long beside computing.
  SidePool& side() { return side_; }

  ExecutorStatistics statistics() const;
  int num_threads() const { return pool_.num_threads(); }

  /// Finishes what was accepted, with UNAVAILABLE what has not been computed by now, and returns
  /// when all is finished.
  void Stop();

 private:
  /// Batches that are in memory at once: one that was interrupted, a long one that passes it and is
  /// interrupted in turn, and one that is not long.
  static constexpr size_t kLevels = 3;

  void Dispatch();
  /// False when the queue is closed and empty.
  bool RunNextBatch();
  /// Runs the batch beside those of the levels below, which wait until it ends.
  void RunAt(size_t level, const Batch& batch);
  /// Runs one batch that passes the long one of the level below, which has had `had_ns`. True when
  /// the queue's order may have another one that does.
  bool LetOnePass(size_t level, const Batch& long_batch, int64_t had_ns);
  /// What the batch took is learned, and counted.
  void Count(const Batch& batch, const BatchOutcome& outcome);

  /// RESOURCE_EXHAUSTED: a reply of so many bytes does not fit.
  absl::Status RefuseReply(const std::string& account, int64_t bytes) const;

  const std::function<TimePoint()> clock_;
  SpeedEstimate speed_;
  DeadlineProbes probes_;
  ReplyBudget replies_;
  RequestQueue queue_;
  SidePool side_;
  Batcher batcher_;
  /// Until the threads are started.
  std::optional<BatchPolicy> policy_{std::in_place};
  ThreadPool pool_;
  std::array<BatchRunner, kLevels> runners_;
  mutable Mutex mutex_;
  ExecutorStatistics statistics_ ABSL_GUARDED_BY(mutex_);
  std::thread dispatcher_;
};

}  // namespace attention
