#include "server/scheduling/executor.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/contain.h"
#include "core/runtime/numa.h"
#include "server/log/log.h"
#include "server/scheduling/refusal.h"

namespace attention {
namespace {

// The pause after the dispatcher found no memory to take a batch.
constexpr std::chrono::milliseconds kShortagePause{10};

// The time after which a request may be retried that had no room for its reply. Replies leave when
// their callers read them.
constexpr int64_t kReplyRetryMs = 100;

// Two, so that one is free while the other has a long step.
constexpr int kSideThreads = 2;

}  // namespace

Executor::Executor(const ExecutorOptions& options)
    : clock_(options.clock),
      speed_(options.num_threads, options.flops_per_ns),
      replies_(options.max_reply_bytes, options.reply_patience),
      queue_(options.queue),
      batcher_(queue_, options.batch, options.num_threads,
               {.clock = clock_,
                .estimate = [this](const BatchKey& key,
                                   double flops) { return speed_.Estimate(key, flops); },
                .requeue = [this](std::shared_ptr<Job> job) { Requeue(std::move(job)); }}),
      pool_(options.num_threads),
      runners_{{{pool_, clock_}, {pool_, clock_}, {pool_, clock_}}},
      side_(kSideThreads),
      dispatcher_([this] { Dispatch(); }) {
  policy_.reset();
}

Executor::~Executor() { Stop(); }

absl::Status Executor::RefuseReply(const std::string& account, int64_t bytes) const {
  const int64_t own_bytes = replies_.bytes_of(account);
  const int64_t used_bytes = replies_.used_bytes();
  const bool is_share = used_bytes + std::max<int64_t>(1, bytes) <= replies_.max_bytes();
  // Before a request is read, the bytes of its reply are not known: 0.
  const std::string more =
      bytes > 0 ? absl::StrCat(", ", bytes, " more would exceed the limit of ") : "; the limit is ";
  const std::string text =
      is_share
          ? absl::StrCat(
                account, " has used its share of replies that are computed or sent: ", own_bytes,
                " bytes", bytes > 0 ? absl::StrCat(", ", bytes, " more would exceed it") : "",
                " (--max-reply-bytes)")
          : absl::StrCat("replies of ", used_bytes, " bytes are computed or sent", more,
                         replies_.max_bytes(), " (--max-reply-bytes)");
  return Refuse(absl::StatusCode::kResourceExhausted, text,
                {.reason = is_share ? RefusalReason::kTenantShare : RefusalReason::kReplyBytes,
                 .retry_after_ms = std::max(kReplyRetryMs, queue_.state().work_ns / 1'000'000)});
}

absl::Status Executor::Submit(std::shared_ptr<Job> job) {
  const RequestClass& request_class = job->description().request_class;
  const TimePoint now = clock_();
  const std::shared_ptr<HeldReply> held =
      replies_.Take(request_class.account, job->reply_bytes(), job->GiveUpReply(), now);
  if (held == nullptr) {
    return RefuseReply(request_class.account, job->reply_bytes());
  }
  job->HoldReply(held);
  const BatchKey& key = job->description().key;
  WorkEstimate work = speed_.Estimate(key, job->description().flops);
  work.batch_ns = speed_.Estimate(key, batcher_.max_flops()).alone_ns;
  const absl::Status status = queue_.Push(job, work, now);
  if (absl::IsDeadlineExceeded(status) && job->description().deadline > now &&
      probes_.Take(request_class.account, now)) {
    return queue_.Push(std::move(job), {.added_ns = work.added_ns}, now);
  }
  return status;
}

void Executor::Requeue(std::shared_ptr<Job> job) {
  const absl::Status status = Contain("queueing a request again", [&] {
    const JobDescription& description = job->description();
    WorkEstimate work = speed_.Estimate(description.key, description.flops);
    if (job->expected_time().count() == 0) {
      work.alone_ns = 0;  // it is tried whatever the estimate
    }
    return queue_.PushAgain(job, work);
  });
  if (!status.ok()) {
    job->Finish(status, {});
  }
}

absl::Status Executor::CheckRoom(const RequestClass& request_class, TimePoint deadline) {
  const TimePoint now = clock_();
  if (!replies_.HasRoom(request_class.account)) {
    replies_.GiveUpOverdue(now);
    return RefuseReply(request_class.account, 0);
  }
  return queue_.CheckRoom(request_class, deadline, now);
}

absl::StatusOr<std::unique_ptr<HeldBytes>> Executor::Reserve(const RequestClass& request_class,
                                                             int64_t bytes) {
  return queue_.Reserve(request_class, bytes, clock_());
}

ExecutorStatistics Executor::statistics() const {
  ExecutorStatistics result;
  {
    MutexLock lock(mutex_);
    result = statistics_;
  }
  result.reply_bytes = replies_.used_bytes();
  result.max_reply_bytes = replies_.max_bytes();
  result.queue = queue_.state();
  return result;
}

Progress Executor::progress() const {
  Progress progress;
  for (const BatchRunner& runner : runners_) {
    progress.steps += runner.steps();
  }
  MutexLock lock(mutex_);
  progress.has_work = statistics_.running_requests > 0 || queue_.state().requests > 0;
  return progress;
}

void Executor::Stop() {
  // First, so that no job begins any more when another is refused because the queue is closed.
  for (BatchRunner& runner : runners_) {
    runner.Abort();
  }
  queue_.Close();
  if (dispatcher_.joinable()) {
    dispatcher_.join();
  }
}

void Executor::Dispatch() {
  PinToNumaNode(0, pool_.num_threads());
  bool is_open = true;
  while (is_open) {
    if (!RunLogged("the dispatcher", [&] { is_open = RunNextBatch(); })) {
      std::this_thread::sleep_for(kShortagePause);  // the jobs still wait
    }
  }
}

bool Executor::RunNextBatch() {
  const Batch batch = batcher_.Next();
  if (batch.jobs.empty()) {
    return false;
  }
  RunAt(0, batch);
  return true;
}

// Nothing allocates before the runner is called, so a batch that was taken always runs.
void Executor::RunAt(size_t level, const Batch& batch) {
  const std::chrono::nanoseconds expected = ExpectedTime(batch);
  const bool is_passable = batch.is_long && level + 1 < kLevels;
  const auto announce = [&, priority = HighestOf(batch)](int64_t used_ns) {
    queue_.SetRunning({.until = clock_() + expected - std::chrono::nanoseconds(used_ns),
                       .passable = is_passable ? std::optional(priority) : std::nullopt,
                       .shared_key = SharesWeights(batch)
                                         ? std::optional(batch.jobs.front()->description().key)
                                         : std::nullopt});
  };
  if (is_passable) {
    queue_.SetVirtualTime(batch.start_tag);
  }
  announce(0);
  // A failure of batches that pass must not end the long batch.
  const auto let_pass = [&](int64_t used_ns) {
    bool has_more = false;
    RunLogged("the dispatcher", [&] { has_more = LetOnePass(level + 1, batch, used_ns); });
    announce(used_ns);
    return has_more;
  };
  BatchRunner::Interlude interlude;
  if (is_passable || level == 0) {
    interlude = std::cref(let_pass);
  }
  {
    MutexLock lock(mutex_);
    statistics_.running_requests += std::ssize(batch.jobs);
    statistics_.interleaved_batches += level > 0 ? 1 : 0;
  }
  const BatchOutcome outcome = runners_[level].Run(batch, interlude);
  if (level == 0) {
    queue_.SetRunning({});  // before the statistics say that nothing runs
  }
  Count(batch, outcome);
}

bool Executor::LetOnePass(size_t level, const Batch& interrupted, int64_t used_ns) {
  batcher_.FinishLost();
  if (interrupted.is_long) {
    const double virtual_time =
        interrupted.start_tag + static_cast<double>(used_ns) / ShareOf(HighestOf(interrupted));
    queue_.SetVirtualTime(virtual_time);
    const Batch earlier =
        batcher_.NextBefore(virtual_time, /*allows_long=*/level + 1 < kLevels, interrupted);
    if (!earlier.jobs.empty()) {
      RunAt(level, earlier);
      return true;
    }
  }
  // A short batch lets only jobs of a higher priority pass, since it is soon done; once it has
  // taken longer than expected, also those of its own priority.
  const bool only_higher = !interrupted.is_long && used_ns <= ExpectedTime(interrupted).count();
  const Batch passing = batcher_.NextShort(kShortNs, interrupted, only_higher);
  if (!passing.jobs.empty()) {
    RunAt(level, passing);
  }
  return false;
}

std::chrono::nanoseconds Executor::ExpectedTime(const Batch& batch) const {
  const WorkEstimate work = speed_.Estimate(batch.jobs.front()->description().key, batch.flops);
  return std::chrono::nanoseconds(std::max(work.added_ns, work.alone_ns));
}

void Executor::Count(const Batch& batch, const BatchOutcome& outcome) {
  RunLogged("learning from the batch", [&] {
    const TimePoint now = clock_();
    for (const std::shared_ptr<Job>& job : batch.jobs) {
      queue_.CountEnd(*job, IsLate(*job, now), now);
    }
    // A batch that was given up tells too that it takes longer than expected. Without these, only
    // the fast ones would count when deadlines are short.
    if (outcome.is_complete || outcome.used_ns > ExpectedTime(batch).count()) {
      speed_.Observe(batch.jobs.front()->description().key, batch.flops, outcome.used_ns);
    }
  });
  MutexLock lock(mutex_);
  statistics_.running_requests -= std::ssize(batch.jobs);
  ++statistics_.batches;
  statistics_.batch_requests += std::ssize(batch.jobs);
  statistics_.batch_tokens += batch.tokens;
  statistics_.busy_ns += outcome.used_ns;
  statistics_.copied_bytes += outcome.copied_bytes;
  statistics_.rows.Observe(batch.tokens);
  statistics_.requests.Observe(std::ssize(batch.jobs));
}

}  // namespace attention
