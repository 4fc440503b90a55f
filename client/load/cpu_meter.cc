#include "client/load/cpu_meter.h"

#include <sys/resource.h>

#include <cstdint>
#include <fstream>

namespace attention {

CpuTimes ReadCpuTimes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
  // The file has the time on a CPU and the time waiting for one, in nanoseconds.
  int64_t running_ns = 0, waiting_ns = 0;
  std::ifstream("/proc/thread-self/schedstat") >> running_ns >> waiting_ns;
  return {.used_s = seconds(usage.ru_utime) + seconds(usage.ru_stime),
          .waited_s = static_cast<double>(waiting_ns) * 1e-9};
}

}  // namespace attention
