// How many threads this process may keep busy.
#pragma once

#include <cstdint>
#include <string>

namespace attention {

/// Reads the limits below `root` ("/" outside tests): the cgroup quota (v2 cpu.max of the process's
/// own group and its ancestors, or v1 cpu.cfs_quota_us / cpu.cfs_period_us). Cores of quota,
/// rounded up; 0 when there is none.
int CgroupCpuLimit(const std::string& root);

/// How often, and for how long in nanoseconds, a thread was kept from running because a quota was
/// used up; 0 where there is none, or the system does not say.
struct CpuThrottling {
  int64_t periods = 0;
  int64_t duration_ns = 0;
};

/// Of the groups that CgroupCpuLimit reads (cpu.stat), since they were made.
CpuThrottling CgroupThrottling(const std::string& root);

/// CPUs in the affinity mask of the calling thread, at least 1.
int AffinityCpus();

/// min(CPUs in the affinity mask, cgroup quota), at least 1: the one thread budget of compute.
int CpuBudget();

}  // namespace attention
