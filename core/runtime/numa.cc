#include "core/runtime/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace attention {
namespace {

struct Numa {
  NumaOptions options;
  NumaUse use;
};

Numa& Current() {
  static auto* const numa = new Numa;  // never destroyed, since threads may outlive main
  return *numa;
}

thread_local int thread_node = 0;

/// Parses "0-3,8,10-11" and keeps the allowed CPUs. None when it has another form.
std::vector<int> ParseCpus(const std::string& list, const std::vector<int>& allowed) {
  std::vector<int> cpus;
  for (const absl::string_view range : absl::StrSplit(list, ',', absl::SkipEmpty())) {
    const std::vector<absl::string_view> ends = absl::StrSplit(range, '-');
    int first = 0;
    int last = 0;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) ||
        !absl::SimpleAtoi(ends.back(), &last)) {
      return {};
    }
    std::copy_if(allowed.begin(), allowed.end(), std::back_inserter(cpus),
                 [&](int cpu) { return cpu >= first && cpu <= last; });
  }
  return cpus;
}

int BindMemory(void* data, size_t size_bytes, const std::vector<int>& node_ids) {
  constexpr int kWordBits = 64;
  std::vector<uint64_t> mask(*std::max_element(node_ids.begin(), node_ids.end()) / kWordBits + 1);
  for (const int id : node_ids) {
    mask[id / kWordBits] |= uint64_t{1} << id % kWordBits;
  }
  const int policy = node_ids.size() > 1 ? MPOL_INTERLEAVE : MPOL_PREFERRED;
  // The system call expects one bit more than it reads.
  const uint64_t bits = mask.size() * kWordBits + 1;
  return syscall(SYS_mbind, data, size_bytes, policy, mask.data(), bits, 0) == 0 ? 0 : errno;
}

int PinThread(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    CPU_SET(cpu, &set);
  }
  return sched_setaffinity(0, sizeof(set), &set) == 0 ? 0 : errno;
}

std::vector<int> AllIds(const std::vector<NumaNode>& nodes) {
  std::vector<int> ids;
  for (const NumaNode& node : nodes) {
    ids.push_back(node.id);
  }
  return ids;
}

/// Tries to place one page, and returns the error number.
int TryToPlaceMemory(const NumaOptions& options) {
  const size_t page_bytes = sysconf(_SC_PAGESIZE);
  void* const page =
      mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return errno;
  }
  const int error = options.calls.bind_memory(page, page_bytes, AllIds(options.nodes));
  munmap(page, page_bytes);
  return error;
}

/// Returns the node of a worker: the node of CPU worker / num_workers of all CPUs, in the order of
/// the nodes.
int NodeOf(int worker, int num_workers, const std::vector<NumaNode>& nodes) {
  int64_t cpus = 0;
  for (const NumaNode& node : nodes) {
    cpus += std::ssize(node.cpus);
  }
  int64_t cpu = worker * cpus / num_workers;
  int node = 0;
  while (cpu >= std::ssize(nodes[node].cpus)) {
    cpu -= std::ssize(nodes[node].cpus);
    ++node;
  }
  return node;
}

}  // namespace

std::vector<int> AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) {
        cpus.push_back(cpu);
      }
    }
  }
  return cpus;
}

std::vector<NumaNode> ReadNumaNodes(const std::string& root, const std::vector<int>& allowed_cpus) {
  std::vector<NumaNode> nodes;
  std::error_code error;
  for (const std::filesystem::directory_entry& folder :
       std::filesystem::directory_iterator(root + "/sys/devices/system/node", error)) {
    const std::string name = folder.path().filename().string();
    NumaNode node;
    if (!absl::StartsWith(name, "node") ||
        !absl::SimpleAtoi(absl::StripPrefix(name, "node"), &node.id) || node.id < 0) {
      continue;
    }
    std::string list;
    std::getline(std::ifstream(folder.path() / "cpulist"), list);
    node.cpus = ParseCpus(list, allowed_cpus);
    if (!node.cpus.empty()) {
      nodes.push_back(std::move(node));
    }
  }
  std::sort(nodes.begin(), nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.id < b.id; });
  return nodes;
}

NumaCalls SystemNumaCalls() { return {.bind_memory = BindMemory, .pin_thread = PinThread}; }

void UseNuma(const NumaOptions& options) {
  Numa& numa = Current();
  numa = {options, {}};
  if (options.nodes.size() < 2) {
    return;
  }
  numa.use.nodes = static_cast<int>(options.nodes.size());
  numa.use.memory_error = TryToPlaceMemory(options);
  if (options.copies_weights && numa.use.memory_error == 0) {
    numa.use.weight_copies = numa.use.nodes;
  }
}

const NumaUse& CurrentNumaUse() { return Current().use; }

// The system may refuse, for example when the CPUs of the process were changed meanwhile. The
// thread then runs where it did.
void PinToNumaNode(int worker, int num_workers) {
  const Numa& numa = Current();
  if (numa.use.nodes > 1) {
    thread_node = NodeOf(worker, num_workers, numa.options.nodes);
    numa.options.calls.pin_thread(numa.options.nodes[thread_node].cpus);
  }
}

int CurrentNumaNode() { return thread_node; }

// Where memory lies changes its speed only, so an error is not the caller's.
void PlaceMemory(void* data, size_t size_bytes, int node) {
  const Numa& numa = Current();
  if (numa.use.nodes == 1 || numa.use.memory_error != 0 || size_bytes == 0) {
    return;
  }
  const std::vector<NumaNode>& nodes = numa.options.nodes;
  numa.options.calls.bind_memory(
      data, size_bytes, node == kAllNumaNodes ? AllIds(nodes) : std::vector<int>{nodes[node].id});
}

}  // namespace attention
