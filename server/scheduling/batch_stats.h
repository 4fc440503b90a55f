// The measurements of a job.
#pragma once

#include <cstdint>

namespace attention {

/// The scheduler's measurements of a job. Durations in nanoseconds.
struct BatchStats {
  int64_t queue_ns = 0;  // from JobDescription::arrival until a batch took it
  /// From then until its last row was computed, by the clock: batches that ran between the slices
  /// of its own count too, unlike in BatchOutcome::used_ns.
  int64_t compute_ns = 0;
  uint64_t batch_id = 0;  // from 1; 0 when it never was in a batch
  int64_t batch_requests = 0;
  int64_t batch_sequences = 0;
  int64_t batch_tokens = 0;
  // The tokens that were not computed because the prefix cache had them, the sequences that begin
  // with them, and the bytes of their keys and values.
  int64_t cached_tokens = 0;
  int64_t cached_sequences = 0;
  int64_t cached_bytes = 0;
};

}  // namespace attention
