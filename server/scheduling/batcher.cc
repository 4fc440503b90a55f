#include "server/scheduling/batcher.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/contain.h"
#include "server/scheduling/refusal.h"

namespace attention {
namespace {

absl::Status StatusOfAbandoned(const Job& job, int64_t queue_ns) {
  return Contain("ending a request", [&] {
    return job.is_cancelled()
               ? Refuse(absl::StatusCode::kCancelled,
                        "the caller cancelled while the request waited",
                        {.reason = RefusalReason::kDeadline})  // if it did so at its deadline
               : Refuse(absl::StatusCode::kDeadlineExceeded,
                        absl::StrCat("the deadline passed while the request waited, after ",
                                     queue_ns / 1000000, " ms"),
                        {.reason = RefusalReason::kDeadline});
  });
}

void FinishAbandonedJob(Job& job, TimePoint now) {
  BatchStats stats;
  stats.queue_ns = Nanoseconds(now - job.description().arrival);
  job.Finish(StatusOfAbandoned(job, stats.queue_ns), stats);
}

}  // namespace

bool SharesWeights(const Batch& batch) {
  return batch.jobs.size() > 1 && batch.jobs.front()->description().key.model != nullptr;
}

Priority HighestOf(const Batch& batch) {
  Priority highest = Priority::kLow;
  for (const std::shared_ptr<Job>& job : batch.jobs) {
    highest = std::min(highest, job->description().request_class.priority);
  }
  return highest;
}

namespace {

// Finds the jobs that should wait for the batch after `running`, in which several jobs share a
// model's weights: they would read them again for a few rows. A higher priority does not wait.
class Sharing {
 public:
  Sharing(const Batch& running, int64_t shared_rows)
      : key_(SharesWeights(running) ? &running.jobs.front()->description().key : nullptr),
        priority_(HighestOf(running)),
        shared_rows_(shared_rows) {}

  bool Awaits(const JobDescription& job) const {
    return key_ != nullptr && job.key == *key_ && job.weight_rows <= shared_rows_ &&
           job.request_class.priority >= priority_;
  }
  Priority priority() const { return priority_; }

 private:
  const BatchKey* const key_;
  const Priority priority_;
  const int64_t shared_rows_;
};

}  // namespace

/// Selects the jobs of one batch. Jobs without a waiting caller are taken too, which frees their
/// room in the queue.
class Batcher::Selection {
 public:
  Selection(const BatchLimits& limits, const Clock& clock) : limits_(limits), clock_(clock) {}

  bool Takes(const Job& job) {
    now_ = now_.has_value() ? now_ : clock_();
    if (IsAbandoned(job, *now_)) {
      return true;
    }
    const JobDescription& description = job.description();
    if (key_.has_value() && (is_full_ || description.key != *key_)) {
      return false;
    }
    if (key_.has_value() && !Fits(description)) {
      is_full_ = true;  // smaller jobs behind it do not pass it
      return false;
    }
    key_ = description.key;
    tokens_ += TokensOf(description);
    flops_ += description.flops;
    attention_flops_ += description.attention_flops;
    weight_rows_ += description.weight_rows;
    cache_bytes_ += description.cache_bytes;
    return true;
  }

 private:
  // A job without rows, which has keys to cache, takes time too.
  static int64_t TokensOf(const JobDescription& description) {
    return std::max<int64_t>(1, description.tokens);
  }
  bool Fits(const JobDescription& description) const {
    const int64_t tokens = tokens_ + TokensOf(description);
    const bool shares_weights = description.key.model != nullptr &&
                                weight_rows_ + description.weight_rows <= limits_.shared_rows &&
                                attention_flops_ + description.attention_flops <= limits_.max_flops;
    return tokens <= limits_.max_tokens &&
           (shares_weights || flops_ + description.flops <= limits_.max_flops) &&
           cache_bytes_ + description.cache_bytes <= limits_.max_cache_bytes;
  }

  const BatchLimits& limits_;
  const Clock& clock_;
  std::optional<TimePoint> now_;
  std::optional<BatchKey> key_;
  bool is_full_ = false;
  int64_t tokens_ = 0;
  double flops_ = 0;
  double attention_flops_ = 0;
  int64_t weight_rows_ = 0;
  int64_t cache_bytes_ = 0;
};

Batcher::Batcher(RequestQueue& queue, const BatchLimits& limits, int num_threads, Clock clock,
                 Requeue requeue)
    : limits_(limits), queue_(queue), clock_(std::move(clock)), requeue_(std::move(requeue)) {
  limits_.max_flops *= num_threads;
}

// Makes the batch without an allocation, so that no job is lost.
Batch Batcher::MakeBatch(std::vector<std::shared_ptr<Job>> taken) {
  Batch batch;
  if (taken.empty()) {
    return batch;
  }
  batch.start = clock_();
  batch.position = queue_.taken_start();
  const auto gone = std::remove_if(taken.begin(), taken.end(), [&](std::shared_ptr<Job>& job) {
    if (IsAbandoned(*job, batch.start)) {
      FinishAbandonedJob(*job, batch.start);
      return true;
    }
    if (!job->TakeMemory()) {
      requeue_(std::move(job));
      return true;
    }
    batch.sequences += static_cast<int64_t>(job->description().sequences.size());
    batch.tokens += job->description().tokens;
    batch.flops += job->description().flops;
    return false;
  });
  taken.erase(gone, taken.end());
  batch.jobs = std::move(taken);
  if (!batch.jobs.empty()) {
    batch.id = next_id_++;
    batch.is_long = batch.flops > limits_.max_flops;
  }
  return batch;
}

Batch Batcher::Next() {
  while (true) {
    Selection selection(limits_, clock_);
    std::vector<std::shared_ptr<Job>> taken =
        queue_.WaitAndTake({limits_.max_delay, limits_.max_tokens},
                           [&](const Job& job) { return selection.Takes(job); });
    const bool is_end = taken.empty();
    Batch batch = MakeBatch(std::move(taken));
    if (is_end || !batch.jobs.empty()) {
      return batch;
    }
  }
}

Batch Batcher::NextBefore(double position, bool allows_long, const Batch& running) {
  const Sharing sharing(running, limits_.shared_rows);
  Selection selection(limits_, clock_);
  return MakeBatch(queue_.Take([&](const Job& job, const RequestQueue::Standing& standing) {
    return standing.finish <= position &&
           (allows_long || job.description().flops <= limits_.max_flops) &&
           !sharing.Awaits(job.description()) && selection.Takes(job);
  }));
}

Batch Batcher::NextShort(int64_t max_ns, const Batch& running) {
  const Sharing sharing(running, limits_.shared_rows);
  Selection selection(limits_, clock_);
  int64_t taken_ns = 0;
  return MakeBatch(queue_.Take([&](const Job& job, const RequestQueue::Standing& standing) {
    const bool is_short = taken_ns + standing.added_ns <= max_ns &&
                          job.description().request_class.priority <= sharing.priority() &&
                          job.description().flops <= limits_.max_flops;
    if (!is_short || sharing.Awaits(job.description()) || !selection.Takes(job)) {
      return false;
    }
    taken_ns += standing.added_ns;
    return true;
  }));
}

void Batcher::FinishAbandoned() {
  const TimePoint now = clock_();
  for (const std::shared_ptr<Job>& job : queue_.TakeAbandoned(now)) {
    FinishAbandonedJob(*job, now);
  }
}

}  // namespace attention
