#include "server/scheduling/batch_runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/layers/rows_per_slice.h"
#include "core/runtime/contain.h"
#include "server/scheduling/packed_batch.h"

namespace attention {
namespace {

// The rows of a row block: enough for the products to run at full speed, and few enough that the
// first row block is early.
constexpr int64_t kStreamBlockRows = 256;
// The maximum memory that is kept for the next batch.
constexpr size_t kMaxIdleBytes = size_t{256} << 20;

int64_t OutputRowBytes(const JobDescription& job) {
  return job.output_width * static_cast<int64_t>(SizeOf(job.output_dtype));
}

bool WantsRows(const Batch& batch) {
  return std::any_of(batch.jobs.begin(), batch.jobs.end(),
                     [](const std::shared_ptr<Job>& job) { return job->description().wants_rows; });
}

// Returns the rows between two calls of on_rows: those of a slice, and of a row block.
int64_t BlockRows(const Batch& batch, const ThreadPool& pool, const Yield& yield) {
  const auto tokens = static_cast<double>(std::max<int64_t>(1, batch.tokens));
  int64_t rows = RowsPerSlice(batch.flops / tokens, pool, yield);
  for (const std::shared_ptr<Job>& job : batch.jobs) {
    if (job->description().wants_rows) {
      const int64_t fitting =
          std::max<int64_t>(1, kRowBlockBytes / OutputRowBytes(job->description()));
      rows = std::min({rows, kStreamBlockRows, fitting});
    }
  }
  return rows;
}

BatchStats StatsOf(const Batch& batch, const Job& job, TimePoint end) {
  return {.queue_ns = Nanoseconds(batch.start - job.description().arrival),
          .compute_ns = Nanoseconds(end - batch.start),
          .batch_id = batch.id,
          .batch_requests = std::ssize(batch.jobs),
          .batch_sequences = batch.sequences,
          .batch_tokens = batch.tokens};
}

// Returns the status of a job in a batch that ended with `computed`.
absl::Status StatusOfJob(const absl::Status& computed, const Job& job, TimePoint end) {
  if (!absl::IsCancelled(computed)) {
    return computed;
  }
  return Contain("ending a request", [&] {
    if (job.is_cancelled()) {
      return absl::CancelledError("the caller cancelled while the request was computed");
    }
    return job.description().deadline <= end
               ? absl::DeadlineExceededError("the deadline passed while the request was computed")
               : absl::UnavailableError("the server shut down before the request was computed");
  });
}

}  // namespace

BatchRunner::BatchRunner(ThreadPool& pool, Clock clock)
    : workspace_(pool), clock_(std::move(clock)) {}

bool BatchRunner::IsAbandoned(const Batch& batch) const {
  const TimePoint now = clock_();
  return is_aborted_ ||
         std::all_of(batch.jobs.begin(), batch.jobs.end(), [now](const std::shared_ptr<Job>& job) {
           return attention::IsAbandoned(*job, now);
         });
}

bool BatchRunner::Pause(const Batch& batch, const Interlude& interlude, int64_t& passed_ns) const {
  const TimePoint begin = clock_();
  const int64_t used_ns = Nanoseconds(begin - batch.start) - passed_ns;
  bool is_alive = !IsAbandoned(batch);
  while (is_alive && interlude(used_ns)) {
    is_alive = !IsAbandoned(batch);
  }
  passed_ns += Nanoseconds(clock_() - begin);
  return is_alive && !IsAbandoned(batch);
}

absl::Status BatchRunner::Compute(const Batch& batch, const Interlude& interlude,
                                  BatchOutcome& outcome, int64_t& passed_ns) {
  if (IsAbandoned(batch)) {
    return absl::CancelledError();
  }
  PackedBatch packed(batch, workspace_);
  outcome.copied_bytes = packed.input_bytes();
  RunCallbacks callbacks;
  if (batch.is_long || WantsRows(batch)) {
    callbacks.yield = [&] {
      ++steps_;
      return interlude ? Pause(batch, interlude, passed_ns) : !IsAbandoned(batch);
    };
    callbacks.block_rows = BlockRows(batch, workspace_.pool(), callbacks.yield);
    callbacks.on_rows = [&](const RowRange& rows) {
      const auto [job, sequence] = packed.OwnerOf(rows.sequence);
      if (job->description().wants_rows) {
        job->OnRows({sequence, rows.first_row, rows.rows});
      }
      return callbacks.yield();
    };
  }
  return packed.Compute(callbacks);
}

BatchOutcome BatchRunner::Run(const Batch& batch, const Interlude& interlude) {
  ++steps_;
  BatchOutcome outcome;
  int64_t passed_ns = 0;
  const absl::Status computed =
      Contain("computing the batch", [&] { return Compute(batch, interlude, outcome, passed_ns); });
  const TimePoint end = clock_();
  outcome.is_complete = computed.ok();
  outcome.used_ns = Nanoseconds(end - batch.start) - passed_ns;
  for (const std::shared_ptr<Job>& job : batch.jobs) {
    job->Finish(StatusOfJob(computed, *job, end), StatsOf(batch, *job, end));
  }
  workspace_.Trim(kMaxIdleBytes);
  ++steps_;
  return outcome;
}

}  // namespace attention
