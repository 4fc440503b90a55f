// A recorded schedule of requests, read from a file.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/load/length_mix.h"

namespace attention {

/// When requests arrived, and how long they were. `times` and `kinds`
/// have one entry for each request.
struct ArrivalTrace {
  std::string path;
  std::vector<std::chrono::nanoseconds> times;  // since the start, ascending
  /// Indices into `lengths`; empty if the file has no lengths.
  std::vector<size_t> kinds;
  /// The different lengths, and how often each occurs.
  LengthMix lengths;
};

/// Reads a file with a line for each request: milliseconds since the start, not before those of the
/// line above, and on all lines or none a length in tokens, after a comma or spaces. Empty lines,
/// and text after a #, are ignored. Of requests that come after `warmup` only the first
/// `max_requests` are kept; 0: all. INVALID_ARGUMENT names the line by number, or says that no
/// request comes after the warm-up; NOT_FOUND names a file that cannot be read.
absl::StatusOr<ArrivalTrace> ReadArrivalTrace(const std::string& path,
                                              absl::Duration warmup = absl::ZeroDuration(),
                                              int64_t max_requests = 0);

}  // namespace attention
