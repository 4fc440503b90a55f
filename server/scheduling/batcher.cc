#include "server/scheduling/batcher.h"

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attention {
namespace {

int64_t Nanoseconds(TimePoint::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

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
    batch.jobs.push_back(job);
  }
  return batch;
}

}  // namespace

Batcher::Batcher(RequestQueue& queue, int64_t max_batch_tokens, Clock clock)
    : queue_(queue), max_batch_tokens_(max_batch_tokens), clock_(std::move(clock)) {}

Batch Batcher::Next() {
  while (true) {
    std::optional<TimePoint> now;
    std::optional<BatchKey> key;
    int64_t tokens = 0;
    // Dead jobs are taken too: a batch is the moment at which their room in the queue is given
    // back.
    const std::vector<std::shared_ptr<Job>> taken = queue_.WaitAndTake([&](const Job& job) {
      now = now.has_value() ? now : clock_();
      if (IsDead(job, *now)) {
        return true;
      }
      const JobDescription& description = job.description();
      if (key.has_value() &&
          (description.key != *key || tokens + description.tokens > max_batch_tokens_)) {
        return false;
      }
      key = description.key;
      tokens += description.tokens;
      return true;
    });
    if (taken.empty()) {
      return Batch();
    }
    Batch batch = KeepLive(taken, *now);
    if (!batch.jobs.empty()) {
      batch.id = next_id_++;
      return batch;
    }
  }
}

}  // namespace attention
