// Counts of a load over time.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "client/load/histogram.h"

namespace attention {

/// One slice of the window's time.
struct TimeSlice {
  /// The number of requests that were due (open loop) or sent (closed loop), and of those that were
  /// not sent.
  int64_t due = 0;
  int64_t not_sent = 0;
  /// Requests that were sent.
  int64_t sent = 0;
  /// OK answers that arrived, and their tokens.
  int64_t answers = 0;
  int64_t tokens = 0;
  /// Requests that failed.
  int64_t errors = 0;
  /// Latencies of OK answers, as LoadResult::latency_ns: answers to requests that were due in this
  /// slice (open loop), or that arrived in it.
  Histogram latency_ns;

  void Merge(const TimeSlice& other);
};

/// Slices of equal length, from the start of the window on. Their length doubles whenever there
/// would be more than kMaxSlices.
class TimeSeries {
 public:
  static constexpr int kMaxSlices = 600;

  /// Returns the shortest of some round lengths that cuts `duration` into at most 120 slices of
  /// less than 1 s, or else into at most kMaxSlices; 10 ms for an infinite duration.
  static absl::Duration SliceFor(absl::Duration duration);

  /// REQUIRES: slice > 0.
  explicit TimeSeries(absl::Duration slice = absl::Seconds(1)) : slice_(slice) {}

  absl::Duration slice() const { return slice_; }
  const std::vector<TimeSlice>& slices() const { return slices_; }

  /// Returns the slice that contains `since_start` >= 0.
  TimeSlice& At(absl::Duration since_start);

  /// Adds the counts of `other`, which began at the same time.
  void Merge(const TimeSeries& other);

 private:
  /// Joins every two slices into one.
  void Coarsen();

  std::vector<TimeSlice> slices_;
  absl::Duration slice_;
};

}  // namespace attention
