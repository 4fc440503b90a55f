#include "core/runtime/cpu_budget.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/runtime/numa.h"

namespace attention {
namespace {

// Returns the words of a file, separated by blanks; none when it cannot be read.
std::vector<std::string> ReadWords(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; file >> word;) {
    words.push_back(word);
  }
  return words;
}

// Returns a quota in cores, rounded up; 0 for "max", -1 and anything but a positive number.
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

// A control group of this process, or an ancestor.
struct Group {
  std::string folder;
  bool is_v2 = false;
};

// Adds `group` and its ancestors in the hierarchy mounted at `mount`, each that exists. In a
// container the path of the group is often not visible; its files are then at the mount itself,
// which is the last ancestor.
void AddGroups(const std::string& mount, std::string group, bool is_v2,
               std::vector<Group>& groups) {
  while (true) {
    std::error_code error;
    const std::string folder = std::filesystem::canonical(mount + group, error).string();
    const auto is_same = [&](const Group& known) { return known.folder == folder; };
    if (!error && std::none_of(groups.begin(), groups.end(), is_same)) {
      groups.push_back({folder, is_v2});
    }
    if (group.empty()) {
      return;
    }
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

std::vector<Group> CpuGroups(const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream lines(root + "/proc/self/cgroup");
  std::vector<Group> groups;
  for (std::string line; std::getline(lines, line);) {
    // Each line is hierarchy-ID:controller,controller:/path; v2 has ID 0 and no controllers.
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) {
      continue;
    }
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (fields[0] == "0" && fields[1].empty()) {
      AddGroups(mounts, fields[2], /*is_v2=*/true, groups);
      AddGroups(mounts + "/unified", fields[2], /*is_v2=*/true, groups);
    } else if (std::find(controllers.begin(), controllers.end(), "cpu") != controllers.end()) {
      AddGroups(absl::StrCat(mounts, "/", fields[1]), fields[2], /*is_v2=*/false, groups);
      AddGroups(mounts + "/cpu", fields[2], /*is_v2=*/false, groups);
    }
  }
  return groups;
}

int CoresOf(const Group& group) {
  if (group.is_v2) {
    const std::vector<std::string> words = ReadWords(group.folder + "/cpu.max");
    return words.size() == 2 ? Cores(words[0], words[1]) : 0;
  }
  const std::vector<std::string> quota = ReadWords(group.folder + "/cpu.cfs_quota_us");
  const std::vector<std::string> period = ReadWords(group.folder + "/cpu.cfs_period_us");
  return quota.size() == 1 && period.size() == 1 ? Cores(quota[0], period[0]) : 0;
}

// Returns the lower of two limits, where 0 means none.
int Tighter(int a, int b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

}  // namespace

int CgroupCpuLimit(const std::string& root) {
  int limit = 0;
  for (const Group& group : CpuGroups(root)) {
    limit = Tighter(limit, CoresOf(group));
  }
  return limit;
}

CpuThrottling CgroupThrottling(const std::string& root) {
  CpuThrottling sum;
  for (const Group& group : CpuGroups(root)) {
    const std::vector<std::string> words = ReadWords(group.folder + "/cpu.stat");
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

int CpuBudget() { return Tighter(AffinityCpus(), CgroupCpuLimit("/")); }

}  // namespace attention
