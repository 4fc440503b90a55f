#include "server/scheduling/batcher.h"

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attention {
namespace {

bool IsDead(const Job& job, TimePoint now) {
  return job.is_cancelled() || job.description().deadline <= now;
}

void FinishDead(Job& job, TimePoint now) {
  BatchStats stats;
  stats.queue_ns = Nanoseconds(now - job.description().arrival);
  if (job.is_cancelled()) {
    job.Finish(absl::CancelledError("the caller cancelled while the request waited"), stats);
  } else {
    job.Finish(absl::DeadlineExceededError(
                   absl::StrCat("the deadline passed while the request waited, after ",
                                stats.queue_ns / 1000000, " ms")),
               stats);
  }
}

// The batch of the jobs that are not dead; ends those that are.
Batch KeepLive(const std::vector<std::shared_ptr<Job>>& taken, TimePoint now) {
  Batch batch;
  batch.start = now;
  for (const std::shared_ptr<Job>& job : taken) {
    if (IsDead(*job, now)) {
      FinishDead(*job, now);
      continue;
    }
    batch.sequences += static_cast<int64_t>(job->description().sequences.size());
    batch.tokens += job->description().tokens;
    batch.flops += job->description().flops;
    batch.jobs.push_back(job);
  }
  return batch;
}

}  // namespace

/// Which jobs make one batch. Dead jobs are taken too: a batch is the moment at which their room in
/// the queue is given back.
class Batcher::Selection {
 public:
  Selection(const BatchLimits& limits, const Clock& clock) : limits_(limits), clock_(clock) {}

  bool Takes(const Job& job) {
    now_ = now_.has_value() ? now_ : clock_();
    if (IsDead(job, *now_)) {
      return true;
    }
    const JobDescription& description = job.description();
    if (key_.has_value() && (is_full_ || description.key != *key_)) {
      return false;
    }
    if (key_.has_value() && !Fits(description)) {
      is_full_ = true;  // smaller ones behind it do not pass it
      return false;
    }
    key_ = description.key;
    tokens_ += description.tokens;
    flops_ += description.flops;
    return true;
  }

  /// REQUIRES: a job was asked about.
  TimePoint now() const { return *now_; }

 private:
  bool Fits(const JobDescription& description) const {
    return tokens_ + description.tokens <= limits_.max_tokens &&
           flops_ + description.flops <= limits_.max_flops;
  }

  const BatchLimits& limits_;
  const Clock& clock_;
  std::optional<TimePoint> now_;
  std::optional<BatchKey> key_;
  bool is_full_ = false;
  int64_t tokens_ = 0;
  double flops_ = 0;
};

Batcher::Batcher(RequestQueue& queue, const BatchLimits& limits, int num_threads, Clock clock)
    : limits_(limits), queue_(queue), clock_(std::move(clock)) {
  limits_.max_flops *= num_threads;
}

Batch Batcher::Next() {
  while (true) {
    Selection selection(limits_, clock_);
    const std::vector<std::shared_ptr<Job>> taken =
        queue_.WaitAndTake({limits_.max_delay, limits_.max_tokens},
                           [&](const Job& job) { return selection.Takes(job); });
    if (taken.empty()) {
      return Batch();
    }
    Batch batch = KeepLive(taken, selection.now());
    if (!batch.jobs.empty()) {
      batch.id = next_id_++;
      batch.is_long = batch.flops > limits_.max_flops;
      return batch;
    }
  }
}

Batch Batcher::NextShort(int64_t max_ns, Priority priority) {
  Selection selection(limits_, clock_);
  int64_t taken_ns = 0;
  const std::vector<std::shared_ptr<Job>> taken =
      queue_.Take([&](const Job& job, int64_t added_ns) {
        const bool is_short =
            taken_ns + added_ns <= max_ns && job.description().request_class.priority <= priority;
        if (!is_short || !selection.Takes(job)) {
          return false;
        }
        taken_ns += added_ns;
        return true;
      });
  Batch batch = taken.empty() ? Batch() : KeepLive(taken, selection.now());
  if (!batch.jobs.empty()) {
    batch.id = next_id_++;
  }
  return batch;
}

}  // namespace attention
