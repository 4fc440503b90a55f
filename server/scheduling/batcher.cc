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

absl::Status StatusOfLost(const Job& job, TimePoint now) {
  return Contain("ending a request", [&] {
    const Refusal refusal = {.reason = RefusalReason::kDeadline};
    // The refusal is used if the call turns CANCELLED into DEADLINE_EXCEEDED
    // (Cancellation::Explain).
    if (job.is_cancelled()) {
      return Refuse(absl::StatusCode::kCancelled, "the caller cancelled while the request waited",
                    refusal);
    }
    const auto milliseconds = [](std::chrono::nanoseconds time) { return time.count() / 1000000; };
    const std::string waited = absl::StrCat(milliseconds(now - job.description().arrival), " ms");
    return Refuse(absl::StatusCode::kDeadlineExceeded,
                  IsAbandoned(job, now)
                      ? absl::StrCat("the deadline passed while the request waited, after ", waited)
                      : absl::StrCat("the request waited ", waited, " and takes about ",
                                     milliseconds(job.expected_time()), " ms, its deadline is in ",
                                     milliseconds(job.description().deadline - now), " ms"),
                  refusal);
  });
}

void FinishLostJob(Job& job, TimePoint now, RequestQueue& queue) {
  if (!job.is_cancelled() || IsLate(job, now)) {  // gRPC cancels a call at its deadline
    queue.CountEnd(job, /*is_late=*/true, now);
  }
  BatchStats stats;
  stats.queue_ns = Nanoseconds(now - job.description().arrival);
  job.Finish(StatusOfLost(job, now), stats);
}

// Returns when a batch of the job that starts now should end: at the job's deadline, or after twice
// the job's own time if that is later. A job that is tried whatever its estimate sets no end.
TimePoint LatestEndOf(const Job& job, TimePoint start) {
  return job.expected_time().count() == 0
             ? TimePoint::max()
             : std::max(job.description().deadline, start + 2 * job.expected_time());
}

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

/// Selects the jobs of one batch. Jobs that would be computed in vain are taken too, which frees
/// their room in the queue.
class Batcher::Selection {
 public:
  Selection(const BatchLimits& limits, const Calls& calls) : limits_(limits), calls_(calls) {}

  bool Takes(const Job& job) {
    now_ = now_.has_value() ? now_ : calls_.clock();
    if (IsLost(job, *now_)) {
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
    const TimePoint latest_end = LatestEndOf(job, *now_);
    if (key_.has_value() && std::min(latest_end_, latest_end) < TimePoint::max()) {
      const TimePoint end = EndWith(description);
      if (end > latest_end) {
        return false;  // those behind it may have more time
      }
      if (end > latest_end_) {
        is_full_ = true;
        return false;
      }
    }
    latest_end_ = std::min(latest_end_, latest_end);
    key_ = description.key;
    rows_ += description.num_rows();
    flops_ += description.flops;
    attention_flops_ += description.attention_flops;
    weight_rows_ += description.weight_rows;
    cache_bytes_ += description.cache_bytes;
    return true;
  }

 private:
  bool Fits(const JobDescription& description) const {
    const int64_t rows = rows_ + description.num_rows();
    const bool shares_weights = description.key.model != nullptr &&
                                weight_rows_ + description.weight_rows <= limits_.shared_rows &&
                                attention_flops_ + description.attention_flops <= limits_.max_flops;
    return rows <= limits_.max_tokens &&
           (shares_weights || flops_ + description.flops <= limits_.max_flops) &&
           cache_bytes_ + description.cache_bytes <= limits_.max_cache_bytes;
  }

  // Returns when the batch would end with the job.
  TimePoint EndWith(const JobDescription& description) const {
    const WorkEstimate work = calls_.estimate(*key_, flops_ + description.flops);
    return *now_ + std::chrono::nanoseconds(work.alone_ns);
  }

  const BatchLimits& limits_;
  const Calls& calls_;
  std::optional<TimePoint> now_;
  TimePoint latest_end_ = TimePoint::max();
  std::optional<BatchKey> key_;
  bool is_full_ = false;
  int64_t rows_ = 0;
  double flops_ = 0;
  double attention_flops_ = 0;
  int64_t weight_rows_ = 0;
  int64_t cache_bytes_ = 0;
};

Batcher::Batcher(RequestQueue& queue, const BatchLimits& limits, int num_threads, Calls calls)
    : limits_(limits), queue_(queue), calls_(std::move(calls)) {
  limits_.max_flops *= num_threads;
}

// Makes the batch without an allocation, so that no job is lost.
Batch Batcher::MakeBatch(std::vector<std::shared_ptr<Job>> taken) {
  Batch batch;
  if (taken.empty()) {
    return batch;
  }
  batch.start = calls_.clock();
  batch.start_tag = queue_.taken_start();
  size_t num_kept = 0;
  for (std::shared_ptr<Job>& job : taken) {
    if (IsLost(*job, batch.start)) {
      FinishLostJob(*job, batch.start, queue_);
      job.reset();
    } else if (!job->TakeMemory()) {
      calls_.requeue(std::move(job));
    } else {
      batch.sequences += static_cast<int64_t>(job->description().sequences.size());
      batch.tokens += job->description().tokens;
      batch.flops += job->description().flops;
      std::swap(taken[num_kept++], job);
    }
  }
  taken.resize(num_kept);
  batch.jobs = std::move(taken);
  if (!batch.jobs.empty()) {
    batch.id = next_id_++;
    batch.is_long = batch.flops > limits_.max_flops;
  }
  return batch;
}

Batch Batcher::Next() {
  while (true) {
    Selection selection(limits_, calls_);
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

Batch Batcher::NextBefore(double virtual_time, bool allows_long, const Batch& running) {
  const Sharing sharing(running, limits_.shared_rows);
  Selection selection(limits_, calls_);
  return MakeBatch(queue_.Take([&](const Job& job, const RequestQueue::Standing& standing) {
    return standing.finish <= virtual_time &&
           (allows_long || job.description().flops <= limits_.max_flops) &&
           !sharing.Awaits(job.description()) && selection.Takes(job);
  }));
}

Batch Batcher::NextShort(int64_t max_ns, const Batch& running, bool only_higher) {
  const Sharing sharing(running, limits_.shared_rows);
  Selection selection(limits_, calls_);
  int64_t taken_ns = 0;
  return MakeBatch(queue_.Take([&](const Job& job, const RequestQueue::Standing& standing) {
    const bool is_short =
        taken_ns + standing.added_ns <= max_ns &&
        (job.description().request_class.priority < sharing.priority() ||
         (!only_higher && job.description().request_class.priority == sharing.priority())) &&
        job.description().flops <= limits_.max_flops;
    if (!is_short || sharing.Awaits(job.description()) || !selection.Takes(job)) {
      return false;
    }
    taken_ns += standing.added_ns;
    return true;
  }));
}

void Batcher::FinishLost() {
  const TimePoint now = calls_.clock();
  for (const std::shared_ptr<Job>& job : queue_.TakeLost(now)) {
    FinishLostJob(*job, now, queue_);
  }
}

}  // namespace attention
