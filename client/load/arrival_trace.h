// When requests came once, and how long they were: a schedule to be sent again.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/length_mix.h"

namespace attention {

/// One entry of each vector a request.
struct ArrivalTrace {
  std::string path;
  std::vector<std::chrono::nanoseconds> times;  // since the start, ascending
  /// The index of its length in `lengths`; empty when the file has no lengths.
  std::vector<size_t> kinds;
  /// The lengths that occur, as often as they do.
  LengthMix lengths;
};

/// A line for each request: milliseconds since the start, not before those of the line above, and
/// on all lines or none a length in tokens, after a comma or spaces. Empty lines, and what follows
/// a #, are left out. INVALID_ARGUMENT names the line by number; NOT_FOUND names a file that cannot
/// be read.
absl::StatusOr<ArrivalTrace> ReadArrivalTrace(const std::string& path);

}  // namespace attention
