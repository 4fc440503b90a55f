// The number of threads that this process may keep busy.
#pragma once

#include <cstdint>
#include <string>

namespace attention {

/// Returns the CPU quota of the control groups in cores, which may be a fraction; 0 when there is
/// none. It reads v2 cpu.max, or v1 cpu.cfs_quota_us / cpu.cfs_period_us, below `root` ("/" outside
/// tests).
double CgroupCpuLimit(const std::string& root);

/// How often, and for how many nanoseconds, the system kept a thread from running because a quota
/// was used up. Both are 0 where there is no quota, or where the system does not report it.
struct CpuThrottling {
  int64_t periods = 0;
  int64_t duration_ns = 0;
};

/// Returns the throttling of the groups that CgroupCpuLimit reads (cpu.stat), since they were
/// created.
CpuThrottling CgroupThrottling(const std::string& root);

/// Returns the number of CPUs in the affinity mask of the calling thread, at least 1.
int AffinityCpus();

/// Returns the cores that this process may use: min(AffinityCpus(), CgroupCpuLimit).
double CpuLimit();

/// Returns the default number of compute threads: CpuLimit, rounded up.
int CpuBudget();

}  // namespace attention
