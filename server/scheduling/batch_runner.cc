#include "server/scheduling/batch_runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/scheduling/packed_batch.h"

namespace attention {
namespace {

// A streamed block is at most this large, unless it is one row.
constexpr int64_t kMaxBlockBytes = 1 << 20;
// Rows of a block: enough for the products to run at full speed, few enough that the first block is
// early.
constexpr int64_t kStreamBlockRows = 256;
// How often a batch that nobody streams looks whether anybody still waits. Smaller batches run
// through.
constexpr int64_t kCheckRows = 4096;
// Memory that is kept for the next batch.
constexpr size_t kMaxIdleBytes = size_t{256} << 20;

int64_t OutputRowBytes(const JobDescription& job) {
  return job.output_width * static_cast<int64_t>(SizeOf(job.output_dtype));
}

// Rows between two calls of on_rows, 0 for none.
int64_t BlockRows(const Batch& batch) {
  int64_t rows = batch.tokens > kCheckRows ? kCheckRows : 0;
  for (const std::shared_ptr<Job>& job : batch.jobs) {
    if (job->description().wants_rows) {
      const int64_t fitting =
          std::max<int64_t>(1, kMaxBlockBytes / OutputRowBytes(job->description()));
      rows = std::min({rows > 0 ? rows : kStreamBlockRows, kStreamBlockRows, fitting});
    }
  }
  return rows;
}

BatchStats StatsOf(const Batch& batch, const Job& job, TimePoint end) {
  using std::chrono::duration_cast;
  using std::chrono::nanoseconds;
  return {.queue_ns = duration_cast<nanoseconds>(batch.start - job.description().arrival).count(),
          .compute_ns = duration_cast<nanoseconds>(end - batch.start).count(),
          .batch_id = batch.id,
          .batch_requests = std::ssize(batch.jobs),
          .batch_sequences = batch.sequences,
          .batch_tokens = batch.tokens};
}

}  // namespace

BatchRunner::BatchRunner(ThreadPool& pool, Clock clock)
    : workspace_(pool), clock_(std::move(clock)) {}

bool BatchRunner::IsDead(const Batch& batch) const {
  const TimePoint now = clock_();
  return is_aborted_ ||
         std::all_of(batch.jobs.begin(), batch.jobs.end(), [now](const std::shared_ptr<Job>& job) {
           return job->is_cancelled() || job->description().deadline <= now;
         });
}

absl::Status BatchRunner::Compute(const Batch& batch) {
  if (IsDead(batch)) {
    return absl::CancelledError();
  }
  PackedBatch packed(batch, workspace_);
  RowBlocks blocks;
  blocks.go_on = [&] { return !IsDead(batch); };
  blocks.block_rows = BlockRows(batch);
  if (blocks.block_rows > 0) {
    blocks.on_rows = [&](const RowRange& rows) {
      const auto [job, sequence] = packed.OwnerOf(rows.sequence);
      if (job->description().wants_rows) {
        job->OnRows({sequence, rows.first_row, rows.rows});
      }
      return blocks.go_on();
    };
  }
  return packed.Compute(blocks);
}

void BatchRunner::Run(const Batch& batch) {
  const absl::Status computed = Compute(batch);
  const TimePoint end = clock_();
  for (const std::shared_ptr<Job>& job : batch.jobs) {
    absl::Status status = computed;
    if (absl::IsCancelled(computed)) {
      if (job->is_cancelled()) {
        status = absl::CancelledError("the caller cancelled while the request was computed");
      } else if (job->description().deadline <= end) {
        status = absl::DeadlineExceededError("the deadline passed while the request was computed");
      } else {
        status = absl::UnavailableError("the server shut down before the request was computed");
      }
    }
    job->Finish(status, StatsOf(batch, *job, end));
  }
  workspace_.Trim(kMaxIdleBytes);
}

}  // namespace attention
