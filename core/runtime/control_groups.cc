#include "core/runtime/control_groups.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace attention {
namespace {

// Adds `group` and its ancestors in the hierarchy mounted at `mount`, each that exists. In a
// container the path of the group is often not visible; its files are then at the mount itself,
// which is the last ancestor.
void AddGroups(const std::string& mount, std::string group, bool is_v2,
               std::vector<ControlGroup>& groups) {
  while (true) {
    std::error_code error;
    const std::string folder = std::filesystem::canonical(mount + group, error).string();
    const auto is_same = [&](const ControlGroup& known) { return known.folder == folder; };
    if (!error && std::none_of(groups.begin(), groups.end(), is_same)) {
      groups.push_back({folder, is_v2});
    }
    if (group.empty()) {
      return;
    }
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

}  // namespace

std::vector<ControlGroup> ControlGroups(const std::string& root, const std::string& controller) {
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream lines(root + "/proc/self/cgroup");
  std::vector<ControlGroup> groups;
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
    } else if (std::find(controllers.begin(), controllers.end(), controller) != controllers.end()) {
      AddGroups(absl::StrCat(mounts, "/", fields[1]), fields[2], /*is_v2=*/false, groups);
      AddGroups(absl::StrCat(mounts, "/", controller), fields[2], /*is_v2=*/false, groups);
    }
  }
  return groups;
}

std::vector<std::string> WordsOfFile(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; file >> word;) {
    words.push_back(word);
  }
  return words;
}

int64_t CgroupMemoryLimit(const std::string& root) {
  // v1 says "no limit" by a number that no machine has.
  constexpr int64_t kNone = int64_t{1} << 60;
  int64_t limit = kNone;
  for (const ControlGroup& group : ControlGroups(root, "memory")) {
    const std::vector<std::string> words =
        WordsOfFile(group.folder + (group.is_v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    int64_t bytes = 0;
    if (words.size() == 1 && absl::SimpleAtoi(words[0], &bytes) && bytes > 0) {
      limit = std::min(limit, bytes);
    }
  }
  return limit == kNone ? 0 : limit;
}

}  // namespace attention
