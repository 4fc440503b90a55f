// Where threads run and where large memory lies on a machine of several NUMA nodes: processors with
// memory of their own, which the others reach more slowly.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace attention {

struct NumaNode {
  int id = 0;
  std::vector<int> cpus;  // on which this process may run
};

/// Returns the CPUs on which the calling thread may run, in ascending order; none on machines with
/// more than 1024 CPUs.
std::vector<int> AllowedCpus();

/// Reads the nodes of the machine and their CPUs below `root` ("/" outside tests), in ascending
/// order. CPUs that are not in `allowed_cpus` are left out, and so are nodes without a CPU. None
/// where the system reports no nodes.
std::vector<NumaNode> ReadNumaNodes(const std::string& root, const std::vector<int>& allowed_cpus);

/// The system calls, which tests replace. They return an error number of errno(3), 0 for success.
struct NumaCalls {
  /// Calls mbind(2): pages of this memory that were never touched will come from these nodes in
  /// turn; with a single node, from it as long as it has memory.
  std::function<int(void* data, size_t size_bytes, const std::vector<int>& node_ids)> bind_memory;
  /// Calls sched_setaffinity(2) for the calling thread.
  std::function<int(const std::vector<int>& cpus)> pin_thread;
};
NumaCalls SystemNumaCalls();

struct NumaOptions {
  /// The nodes to use. With fewer than two, threads and memory are left to the system.
  std::vector<NumaNode> nodes = {};
  /// Whether weights have one copy on each node, which the node's threads read. Otherwise their
  /// pages come from all nodes in turn.
  bool copies_weights = false;
  NumaCalls calls = SystemNumaCalls();
};

/// What the process does with the nodes. Below, a node is an index into the options' nodes.
struct NumaUse {
  int nodes = 1;
  int weight_copies = 1;
  /// The error number with which the system refused to place memory, which it then places itself:
  /// on the node of the thread that touches a page first.
  int memory_error = 0;
};

/// Sets how this process treats the threads and the large memory that it makes from now on. It
/// tries at once whether memory can be placed. With fewer than two nodes it makes no system call,
/// and neither do the functions below. REQUIRES: no other thread is in a function of this file.
void UseNuma(const NumaOptions& options);
const NumaUse& CurrentNumaUse();

/// Lets the calling thread, which is `worker` of `num_workers` threads that compute together, run
/// on the CPUs of one node. Each node gets as large a share of the threads as it has of the CPUs.
void PinToNumaNode(int worker, int num_workers);
/// Returns the node to which the calling thread was pinned; 0 for other threads.
int CurrentNumaNode();

inline constexpr int kAllNumaNodes = -1;

/// Asks for the pages of this memory, which nobody has touched yet, to come from `node`, or from
/// all nodes in turn.
void PlaceMemory(void* data, size_t size_bytes, int node);

}  // namespace attention
