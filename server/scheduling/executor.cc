#include "server/scheduling/executor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/scheduling/refusal.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

// Replies leave when their callers read.
constexpr int64_t kReplyRetryMs = 100;

Priority HighestOf(const Batch& batch) {
  Priority highest = Priority::kLow;
  for (const std::shared_ptr<Job>& job : batch.jobs) {
    highest = std::min(highest, job->description().request_class.priority);
  }
  return highest;
}

}  // namespace

Executor::Executor(const ExecutorOptions& options)
    : speed_(options.num_threads),
      replies_(options.max_reply_bytes, options.reply_patience),
      queue_(options.queue),
      batcher_(queue_, options.batch, options.num_threads, steady_clock::now),
      pool_(options.num_threads),
      runner_(pool_, steady_clock::now),
      short_runner_(pool_, steady_clock::now),
      dispatcher_([this] { Dispatch(); }) {
  policy_.reset();
}

Executor::~Executor() { Stop(); }

absl::Status Executor::RefuseReply(int64_t bytes) const {
  return Refuse(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("replies of ", replies_.used_bytes(), " bytes are computed or sent, ", bytes,
                   " more would pass the limit of ", replies_.max_bytes(), " (--max-reply-bytes)"),
      {.reason = RefusalReason::kReplyBytes,
       .retry_after_ms = std::max(kReplyRetryMs, queue_.state().work_ns / 1'000'000)});
}

absl::Status Executor::Submit(std::shared_ptr<Job> job) {
  const std::shared_ptr<HeldReply> part =
      replies_.Take(job->reply_bytes(), job->GiveUpReply(), steady_clock::now());
  if (part == nullptr) {
    return RefuseReply(job->reply_bytes());
  }
  job->HoldReply(part);
  const BatchKey key = job->description().key;
  const WorkEstimate work = speed_.Estimate(key, job->description().flops);
  absl::Status status = queue_.Push(std::move(job), work, steady_clock::now());
  if (absl::IsDeadlineExceeded(status)) {
    speed_.Doubt(key);
  }
  return status;
}

absl::Status Executor::CheckRoom(const RequestClass& request_class, TimePoint deadline) {
  if (replies_.used_bytes() >= replies_.max_bytes()) {
    replies_.GiveUpOverdue(steady_clock::now());
    return RefuseReply(0);
  }
  return queue_.CheckRoom(request_class, deadline, steady_clock::now());
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

void Executor::Stop() {
  queue_.Close();
  runner_.Abort();
  short_runner_.Abort();
  if (dispatcher_.joinable()) {
    dispatcher_.join();
  }
}

void Executor::Dispatch() {
  for (Batch batch = batcher_.Next(); !batch.jobs.empty(); batch = batcher_.Next()) {
    const BatchKey& key = batch.jobs.front()->description().key;
    const WorkEstimate work = speed_.Estimate(key, batch.flops);
    queue_.SetBusyUntil(batch.start +
                        std::chrono::nanoseconds(std::max(work.added_ns, work.alone_ns)));
    Run(batch, runner_, [this, priority = HighestOf(batch)] { RunShortBatch(priority); });
    queue_.SetBusyUntil(TimePoint());
    batch = Batch();  // the jobs must not live until the next request comes
  }
}

void Executor::RunShortBatch(Priority priority) {
  const Batch batch = batcher_.NextShort(kShortNs, priority);
  if (!batch.jobs.empty()) {
    Run(batch, short_runner_, nullptr);
    MutexLock lock(mutex_);
    ++statistics_.interleaved_batches;
  }
}

void Executor::Run(const Batch& batch, BatchRunner& runner,
                   const std::function<void()>& interlude) {
  {
    MutexLock lock(mutex_);
    statistics_.running_requests += std::ssize(batch.jobs);
  }
  const BatchOutcome outcome = runner.Run(batch, interlude);
  if (outcome.is_complete) {
    speed_.Observe(batch.jobs.front()->description().key, batch.flops, outcome.compute_ns);
  }
  MutexLock lock(mutex_);
  statistics_.running_requests -= std::ssize(batch.jobs);
  ++statistics_.batches;
  statistics_.batch_requests += std::ssize(batch.jobs);
  statistics_.batch_tokens += batch.tokens;
  statistics_.padding_tokens += outcome.padding_tokens;
  statistics_.busy_ns += outcome.compute_ns;
  statistics_.copied_bytes += outcome.copied_bytes;
  statistics_.rows.Observe(batch.tokens);
  statistics_.requests.Observe(std::ssize(batch.jobs));
}

}  // namespace attention
