// NUMA nodes: fake ones for what the process asks the system, the real one for what the system
// does.
#include "core/runtime/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/runtime/huge_pages.h"
#include "core/runtime/slab_arena.h"
#include "core/runtime/thread_pool.h"
#include "gmock/gmock.h"
#include "tests/support/fake_numa.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A tree of nodes as the system shows it.
class NumaTreeTest : public ::testing::Test {
 protected:
  void Add(const std::string& name, const std::string& cpus) {
    root_.Write("sys/devices/system/node/" + name + "/cpulist", cpus + "\n");
  }
  std::vector<std::pair<int, std::vector<int>>> Read(const std::vector<int>& allowed) const {
    std::vector<std::pair<int, std::vector<int>>> nodes;
    for (const NumaNode& node : ReadNumaNodes(root_.path(), allowed)) {
      nodes.emplace_back(node.id, node.cpus);
    }
    return nodes;
  }

  TempFolder root_;
};

TEST_F(NumaTreeTest, HasTheCpusOfEachNodeInOrder) {
  Add("node10", "9");
  Add("node2", "2-3,6");
  Add("node0", "0-1,4-5");
  root_.Write("sys/devices/system/node/online", "0,2,10\n");
  EXPECT_THAT(
      Read({0, 1, 2, 3, 4, 5, 6, 9}),
      ElementsAre(std::pair(0, std::vector<int>{0, 1, 4, 5}),
                  std::pair(2, std::vector<int>{2, 3, 6}), std::pair(10, std::vector<int>{9})));
}

TEST_F(NumaTreeTest, LeavesOutCpusOnWhichTheProcessMayNotRun) {
  Add("node0", "0-3");
  Add("node1", "4-7");
  EXPECT_THAT(Read({2, 3, 4}),
              ElementsAre(std::pair(0, std::vector<int>{2, 3}), std::pair(1, std::vector<int>{4})));
  EXPECT_THAT(Read({5, 6}), ElementsAre(std::pair(1, std::vector<int>{5, 6})));
}

TEST_F(NumaTreeTest, LeavesOutNodesOfMemoryAlone) {
  Add("node0", "0-1");
  Add("node1", "");
  EXPECT_THAT(Read({0, 1}), SizeIs(1));
}

TEST_F(NumaTreeTest, LeavesOutWhatIsNoNode) {
  EXPECT_THAT(Read({0, 1}), IsEmpty()) << "no tree at all";
  for (const char* const text : {"x", "0-", "0-1-2", "1,x", "-1"}) {
    Add("node0", text);
    EXPECT_THAT(Read({0, 1}), IsEmpty()) << text;
  }
  Add("nodes", "0");
  Add("node-1", "0");
  EXPECT_THAT(Read({0, 1}), IsEmpty());
}

TEST(AllowedCpusTest, AreThoseOfTheThread) {
  const std::vector<int> all = AllowedCpus();
  ASSERT_FALSE(all.empty());
  for (const NumaNode& node : ReadNumaNodes("/", all)) {
    EXPECT_TRUE(std::includes(all.begin(), all.end(), node.cpus.begin(), node.cpus.end()));
  }
}

/// Runs many tasks, and returns the node of each worker that ran one.
std::map<int, int> NodesOfWorkers(int num_threads) {
  std::vector<std::atomic<int>> nodes(num_threads);
  ThreadPool pool(num_threads);
  std::atomic<int> begun = 0;
  pool.ParallelFor(num_threads, [&](int64_t, int worker) {
    nodes[worker] = CurrentNumaNode();
    for (++begun; begun < num_threads;) {  // each worker has one task
      std::this_thread::yield();
    }
  });
  std::map<int, int> result;
  for (int worker = 1; worker < num_threads; ++worker) {
    result[worker] = nodes[worker];
  }
  return result;
}

TEST(NumaThreadsTest, ANodeHasAsLargeAShareOfTheThreadsAsOfTheCpus) {
  FakeNuma numa({{.id = 0, .cpus = {0, 1}}, {.id = 3, .cpus = {2, 3, 4, 5}}});
  EXPECT_EQ(NodesOfWorkers(6), (std::map<int, int>{{1, 0}, {2, 1}, {3, 1}, {4, 1}, {5, 1}}));
  EXPECT_THAT(numa.pins(), ::testing::UnorderedElementsAre(
                               std::vector<int>{0, 1}, std::vector<int>{2, 3, 4, 5},
                               std::vector<int>{2, 3, 4, 5}, std::vector<int>{2, 3, 4, 5},
                               std::vector<int>{2, 3, 4, 5}));
  EXPECT_EQ(NodesOfWorkers(3), (std::map<int, int>{{1, 1}, {2, 1}})) << "fewer threads than CPUs";
  EXPECT_EQ(NodesOfWorkers(4), (std::map<int, int>{{1, 0}, {2, 1}, {3, 1}}));
  std::map<int, int> counts;
  for (const auto& [worker, node] : NodesOfWorkers(12)) {
    ++counts[node];
  }
  EXPECT_EQ(counts, (std::map<int, int>{{0, 3}, {1, 8}})) << "more threads than CPUs";
}

TEST(NumaThreadsTest, RunOnTheCpusOfTheirNode) {
  const std::vector<int> all = AllowedCpus();
  NumaOptions options{.nodes = {{.id = 0, .cpus = {all.front()}}, {.id = 0, .cpus = {all.back()}}}};
  const ScopedNuma numa(options);
  std::thread([&] {
    for (const int worker : {0, 1}) {
      PinToNumaNode(worker, 2);
      EXPECT_EQ(AllowedCpus(), options.nodes[worker].cpus);
      EXPECT_EQ(CurrentNumaNode(), worker);
    }
  }).join();
  EXPECT_EQ(AllowedCpus(), all) << "the calling thread of a pool is not the pool's to pin";
}

TEST(NumaMemoryTest, LargeMemoryComesFromAllNodesInTurn) {
  FakeNuma numa({{.id = 0, .cpus = {0}}, {.id = 2, .cpus = {1}}});
  ASSERT_THAT(numa.binds(), SizeIs(1)) << "the trial";
  const MappedBuffer buffer(3 << 20);
  SlabArena arena(size_t{5} << 20);
  const SlabArena::Slot slot = arena.Take();
  ASSERT_THAT(numa.binds(), SizeIs(3));
  const FakeNuma::Bind of_buffer = numa.binds()[1];
  EXPECT_EQ(of_buffer.data, buffer.data());
  EXPECT_EQ(of_buffer.size_bytes, buffer.size_bytes());
  EXPECT_THAT(of_buffer.node_ids, ElementsAre(0, 2));
  const FakeNuma::Bind of_slab = numa.binds()[2];
  EXPECT_LE(of_slab.data, slot.memory);
  EXPECT_EQ(of_slab.size_bytes, size_t{16} << 20);
  EXPECT_THAT(of_slab.node_ids, ElementsAre(0, 2));
  const MappedBuffer second(4096, 1);
  EXPECT_THAT(numa.binds().back().node_ids, ElementsAre(2)) << "memory of one node";
}

// Docker forbids mbind: the server then runs as before.
TEST(NumaMemoryTest, ARefusalIsKeptAndNotAskedForAgain) {
  FakeNuma numa({{.id = 0, .cpus = {0}}, {.id = 1, .cpus = {1}}}, /*copies_weights=*/true, EPERM);
  EXPECT_EQ(CurrentNumaUse().memory_error, EPERM);
  EXPECT_EQ(CurrentNumaUse().nodes, 2) << "threads are still pinned";
  EXPECT_EQ(CurrentNumaUse().weight_copies, 1) << "copies would lie on one node";
  MappedBuffer buffer(4096);
  buffer.data()[4095] = std::byte{1};
  EXPECT_THAT(numa.binds(), SizeIs(1));
}

TEST(NumaMemoryTest, OneNodeMakesNoSystemCall) {
  for (const std::vector<NumaNode>& nodes :
       {std::vector<NumaNode>{}, std::vector<NumaNode>{{.id = 0, .cpus = {0, 1}}}}) {
    FakeNuma numa(nodes, /*copies_weights=*/true, EPERM);
    const MappedBuffer buffer(3 << 20);
    SlabArena arena(size_t{5} << 20);
    arena.Take();
    NodesOfWorkers(3);
    PinToNumaNode(1, 2);
    EXPECT_THAT(numa.binds(), IsEmpty());
    EXPECT_THAT(numa.pins(), IsEmpty());
    EXPECT_EQ(CurrentNumaUse().nodes, 1);
    EXPECT_EQ(CurrentNumaUse().weight_copies, 1);
    EXPECT_EQ(CurrentNumaUse().memory_error, 0);
  }
}

/// The policy of the page at `data`, and its nodes.
std::pair<int, uint64_t> PolicyAt(const void* data) {
  int policy = -1;
  uint64_t nodes[16] = {};
  EXPECT_EQ(syscall(SYS_get_mempolicy, &policy, nodes, 8 * sizeof(nodes), data, MPOL_F_ADDR), 0)
      << std::strerror(errno);
  return {policy, nodes[0]};
}

/// The node on which the page at `data` lies, or an error below 0.
int NodeAt(void* data) {
  int status = -ENOENT;
  EXPECT_EQ(syscall(SYS_move_pages, 0, 1ul, &data, nullptr, &status, 0), 0) << std::strerror(errno);
  return status;
}

// The map of pages of a real process, on the machine's first node under two names.
TEST(NumaMemoryTest, TheSystemTakesPagesFromTheNodes) {
  const std::vector<NumaNode> real = ReadNumaNodes("/", AllowedCpus());
  if (real.empty() || real.front().id >= 64) {
    GTEST_SKIP() << "the system reports no nodes";
  }
  const ScopedNuma numa({.nodes = {real.front(), real.front()}});
  if (CurrentNumaUse().memory_error == EPERM || CurrentNumaUse().memory_error == ENOSYS) {
    GTEST_SKIP() << "the system forbids mbind";
  }
  ASSERT_EQ(CurrentNumaUse().memory_error, 0) << std::strerror(CurrentNumaUse().memory_error);
  const uint64_t mask = uint64_t{1} << real.front().id;
  MappedBuffer all((size_t{5} << 20) + 1);
  MappedBuffer one(size_t{5} << 20, 1);
  SlabArena arena(size_t{5} << 20);
  const SlabArena::Slot slot = arena.Take();
  for (const size_t at : {size_t{0}, size_t{3} << 20, (size_t{5} << 20) - 1}) {
    EXPECT_EQ(PolicyAt(all.data() + at), std::pair(int{MPOL_INTERLEAVE}, mask));
    EXPECT_EQ(PolicyAt(slot.memory + at), std::pair(int{MPOL_INTERLEAVE}, mask));
    EXPECT_EQ(PolicyAt(one.data() + at), std::pair(int{MPOL_PREFERRED}, mask));
    for (std::byte* const data : {all.data(), one.data(), slot.memory}) {
      data[at] = std::byte{1};
      EXPECT_EQ(NodeAt(data + at), real.front().id);
    }
  }
}

}  // namespace
}  // namespace attention
