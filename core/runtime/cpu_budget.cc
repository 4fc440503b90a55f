#include "core/runtime/cpu_budget.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace attention {
namespace {

// Blank-separated words of a file; none when it cannot be read.
std::vector<std::string> ReadWords(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; file >> word;) {
    words.push_back(word);
  }
  return words;
}

// Cores, rounded up; 0 for "max", -1 and anything that is no positive number.
int Cores(const std::string& quota, const std::string& period) {
  int64_t quota_us = 0;
  int64_t period_us = 0;
  if (!absl::SimpleAtoi(quota, &quota_us) || !absl::SimpleAtoi(period, &period_us) ||
      quota_us <= 0 || period_us <= 0) {
    return 0;
  }
  const int64_t cores = quota_us / period_us + (quota_us % period_us != 0);
  return static_cast<int>(std::min<int64_t>(cores, 1 << 20));
}

int CoresOfGroupV2(const std::string& folder) {
  const std::vector<std::string> words = ReadWords(folder + "/cpu.max");
  return words.size() == 2 ? Cores(words[0], words[1]) : 0;
}

int CoresOfGroupV1(const std::string& folder) {
  const std::vector<std::string> quota = ReadWords(folder + "/cpu.cfs_quota_us");
  const std::vector<std::string> period = ReadWords(folder + "/cpu.cfs_period_us");
  return quota.size() == 1 && period.size() == 1 ? Cores(quota[0], period[0]) : 0;
}

// The lower of two limits, where 0 is none.
int Tighter(int a, int b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

// The tightest limit of `group` and its ancestors below the hierarchy mounted at `mount`. In a
// container the group's own path is often not visible; its limit then stands at the mount, which is
// the last ancestor.
int TightestLimit(const std::string& mount, std::string group,
                  int (*cores_of_group)(const std::string& folder)) {
  int limit = cores_of_group(mount);
  while (!group.empty()) {
    limit = Tighter(limit, cores_of_group(mount + group));
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
  return limit;
}

}  // namespace

int CgroupCpuLimit(const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  int limit = 0;
  for (std::string line; std::getline(groups, line);) {
    // hierarchy-ID:controller,controller:/path; v2 has ID 0 and no controllers.
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) {
      continue;
    }
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (fields[0] == "0" && fields[1].empty()) {
      limit = Tighter(limit, TightestLimit(mounts, fields[2], CoresOfGroupV2));
      limit = Tighter(limit, TightestLimit(mounts + "/unified", fields[2], CoresOfGroupV2));
    } else if (std::find(controllers.begin(), controllers.end(), "cpu") != controllers.end()) {
      limit = Tighter(
          limit, TightestLimit(absl::StrCat(mounts, "/", fields[1]), fields[2], CoresOfGroupV1));
      limit = Tighter(limit, TightestLimit(mounts + "/cpu", fields[2], CoresOfGroupV1));
    }
  }
  return limit;
}

int AffinityCpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  // Fails on machines with more CPUs than a cpu_set_t holds.
  const int count = sched_getaffinity(0, sizeof(cpus), &cpus) == 0
                        ? CPU_COUNT(&cpus)
                        : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(count, 1);
}

int CpuBudget() { return Tighter(AffinityCpus(), CgroupCpuLimit("/")); }

}  // namespace attention
