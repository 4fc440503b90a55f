// The resources that this process uses.
#pragma once

#include <cstdint>
#include <optional>

namespace attention {

/// Values that cannot be read are empty: a 0 would be taken for a measurement.
struct ProcessUsage {
  int64_t cpu_ns = 0;  // CPU time of all threads, in user and kernel mode
  std::optional<int64_t> resident_bytes;
  std::optional<int64_t> virtual_bytes;
  std::optional<int64_t> open_files;
  int64_t max_open_files = 0;
  std::optional<double> start_time_seconds;  // since the epoch
};

/// Reads the current values. The first call opens the files of /proc, which stay open, since no
/// other can be opened at the limit of open files. Thread-safe.
ProcessUsage ReadProcessUsage();

}  // namespace attention
