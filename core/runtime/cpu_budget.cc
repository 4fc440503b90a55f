#include "core/runtime/cpu_budget.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "core/runtime/control_groups.h"
#include "core/runtime/numa.h"

namespace attention {
namespace {

// Returns a quota in cores; 0 for "max", -1 and anything but a positive number.
double Cores(const std::string& quota, const std::string& period) {
  int64_t quota_us = 0;
  int64_t period_us = 0;
  if (!absl::SimpleAtoi(quota, &quota_us) || !absl::SimpleAtoi(period, &period_us) ||
      quota_us <= 0 || period_us <= 0) {
    return 0;
  }
  return std::min(static_cast<double>(quota_us) / static_cast<double>(period_us), 1e6);
}

double CoresOf(const ControlGroup& group) {
  if (group.is_v2) {
    const std::vector<std::string> words = WordsOfFile(group.folder + "/cpu.max");
    return words.size() == 2 ? Cores(words[0], words[1]) : 0;
  }
  const std::vector<std::string> quota = WordsOfFile(group.folder + "/cpu.cfs_quota_us");
  const std::vector<std::string> period = WordsOfFile(group.folder + "/cpu.cfs_period_us");
  return quota.size() == 1 && period.size() == 1 ? Cores(quota[0], period[0]) : 0;
}

// Returns the lower of two limits, where 0 means none.
double Tighter(double a, double b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

}  // namespace

double CgroupCpuLimit(const std::string& root) {
  double limit = 0;
  for (const ControlGroup& group : ControlGroups(root, "cpu")) {
    limit = Tighter(limit, CoresOf(group));
  }
  return limit;
}

CpuThrottling CgroupThrottling(const std::string& root) {
  CpuThrottling sum;
  for (const ControlGroup& group : ControlGroups(root, "cpu")) {
    const std::vector<std::string> words = WordsOfFile(group.folder + "/cpu.stat");
    for (size_t i = 0; i + 1 < words.size(); i += 2) {
      int64_t value = 0;
      if (!absl::SimpleAtoi(words[i + 1], &value)) {
        continue;
      }
      sum.periods += words[i] == "nr_throttled" ? value : 0;
      sum.duration_ns += words[i] == "throttled_usec" ? value * 1000 : 0;  // v2
      sum.duration_ns += words[i] == "throttled_time" ? value : 0;         // v1
    }
  }
  return sum;
}

int AffinityCpus() {
  const int allowed = static_cast<int>(AllowedCpus().size());
  return allowed > 0 ? allowed : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

double CpuLimit() { return Tighter(AffinityCpus(), CgroupCpuLimit("/")); }

int CpuBudget() { return static_cast<int>(std::ceil(CpuLimit())); }

}  // namespace attention
