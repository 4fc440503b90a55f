// The control groups (cgroups) of this process, which may limit its processors and its memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attention {

/// A control group of this process, or an ancestor.
struct ControlGroup {
  std::string folder;
  bool is_v2 = false;
};

/// Returns the groups that limit what `controller` ("cpu", "memory") controls: the process's own
/// and its ancestors, of cgroup v2 or v1, below `root` ("/" outside tests).
std::vector<ControlGroup> ControlGroups(const std::string& root, const std::string& controller);

/// Returns the words of a file, separated by blanks; none when it cannot be read.
std::vector<std::string> WordsOfFile(const std::string& path);

/// Returns the memory in bytes that the groups allow; 0 when they set no limit. It reads v2
/// memory.max or v1 memory.limit_in_bytes.
int64_t CgroupMemoryLimit(const std::string& root);

}  // namespace attention
