// The resources that this process uses.
#pragma once

#include <cstdint>

namespace attention {

struct ProcessUsage {
  int64_t cpu_ns = 0;  // CPU time of all threads, in user and kernel mode
  int64_t resident_bytes = 0;
  int64_t virtual_bytes = 0;
  int64_t open_files = 0;
  int64_t max_open_files = 0;
  double start_time_seconds = 0;  // since the epoch
};

/// Reads the current values from /proc; values that cannot be read are 0.
ProcessUsage ReadProcessUsage();

}  // namespace attention
