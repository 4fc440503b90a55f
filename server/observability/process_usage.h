// What this process takes of its machine.
#pragma once

#include <cstdint>

namespace attention {

struct ProcessUsage {
  int64_t cpu_ns = 0;  // of all its threads, in user and kernel mode
  int64_t resident_bytes = 0;
  int64_t virtual_bytes = 0;
  int64_t open_files = 0;
  int64_t max_open_files = 0;
  double start_time_seconds = 0;  // since the epoch
};

/// Of now, from /proc; 0 for what cannot be read.
ProcessUsage ReadProcessUsage();

}  // namespace attention
