// What control groups and affinity allow the process.
#include "core/runtime/cpu_budget.h"

#include <sched.h>

#include <filesystem>
#include <string>
#include <thread>

#include "core/runtime/control_groups.h"
#include "gmock/gmock.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

class CgroupTest : public ::testing::Test {
 protected:
  void InGroups(const std::string& lines) { root_.Write("proc/self/cgroup", lines); }
  void Limit(const std::string& file, const std::string& text) {
    root_.Write("sys/fs/cgroup/" + file, text + "\n");
  }
  double CpuLimit() const { return CgroupCpuLimit(root_.path()); }

  TempFolder root_;
};

TEST_F(CgroupTest, WithoutCgroupsThereIsNoLimit) { EXPECT_EQ(CpuLimit(), 0); }

TEST_F(CgroupTest, V2QuotaIsInCores) {
  InGroups("0::/service\n");
  for (const auto& [text, cores] :
       {std::pair{"200000 100000", 2.0}, {"150000 100000", 1.5}, {"1000 100000", 0.01}}) {
    Limit("service/cpu.max", text);
    EXPECT_EQ(CpuLimit(), cores) << text;
  }
}

TEST_F(CgroupTest, V2MaxIsNoLimit) {
  InGroups("0::/service\n");
  Limit("service/cpu.max", "max 100000");
  EXPECT_EQ(CpuLimit(), 0);
}

TEST_F(CgroupTest, V2TakesTheTightestAncestor) {
  InGroups("0::/a/b/c\n");
  Limit("a/cpu.max", "300000 100000");
  Limit("a/b/cpu.max", "max 100000");
  Limit("a/b/c/cpu.max", "800000 100000");
  EXPECT_EQ(CpuLimit(), 3);
  Limit("cpu.max", "100000 50000");
  EXPECT_EQ(CpuLimit(), 2);
}

TEST_F(CgroupTest, V2GroupThatIsNotVisibleFallsBackToTheMount) {
  InGroups("0::/system.slice/container.scope\n");
  Limit("cpu.max", "400000 100000");
  EXPECT_EQ(CpuLimit(), 4);
  InGroups("0::/../sibling\n");
  EXPECT_EQ(CpuLimit(), 4);
  InGroups("0::/\n");
  EXPECT_EQ(CpuLimit(), 4);
}

TEST_F(CgroupTest, V1ReadsQuotaAndPeriodOfTheCpuController) {
  InGroups("5:cpuset:/other\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/x:y\n");
  Limit("cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "250000");
  Limit("cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000");
  EXPECT_EQ(CpuLimit(), 2.5);
  Limit("cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(CpuLimit(), 0);
}

TEST_F(CgroupTest, V2ThrottlingIsThatOfTheGroupAndItsAncestors) {
  InGroups("0::/a/b\n");
  EXPECT_EQ(CgroupThrottling(root_.path()).periods, 0);
  Limit("cpu.stat", "usage_usec 5000");
  Limit("a/cpu.stat", "usage_usec 900\nnr_periods 40\nnr_throttled 3\nthrottled_usec 250");
  Limit("a/b/cpu.stat", "usage_usec 700\nnr_periods 40\nnr_throttled 4\nthrottled_usec 1000");
  EXPECT_EQ(CgroupThrottling(root_.path()).periods, 7);
  EXPECT_EQ(CgroupThrottling(root_.path()).duration_ns, 1'250'000);
}

TEST_F(CgroupTest, V1ThrottlingIsCountedOnceUnderBothNamesOfTheController) {
  InGroups("4:cpu,cpuacct:/\n");
  Limit("cpu,cpuacct/cpu.stat", "nr_periods 10\nnr_throttled 2\nthrottled_time 77");
  std::filesystem::create_directory_symlink("cpu,cpuacct", root_.path() + "/sys/fs/cgroup/cpu");
  EXPECT_EQ(CgroupThrottling(root_.path()).periods, 2);
  EXPECT_EQ(CgroupThrottling(root_.path()).duration_ns, 77);
}

TEST_F(CgroupTest, V1TakesTheTightestAncestor) {
  InGroups("4:cpu:/docker/abc\n");
  Limit("cpu/cpu.cfs_quota_us", "500000");
  Limit("cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(CpuLimit(), 5);
  Limit("cpu/docker/cpu.cfs_quota_us", "200000");
  Limit("cpu/docker/cpu.cfs_period_us", "100000");
  EXPECT_EQ(CpuLimit(), 2);
}

TEST_F(CgroupTest, OtherControllersAreNotRead) {
  InGroups("5:cpuset:/docker\n");
  Limit("cpuset/docker/cpu.cfs_quota_us", "100000");
  Limit("cpuset/docker/cpu.cfs_period_us", "100000");
  EXPECT_EQ(CpuLimit(), 0);
}

TEST_F(CgroupTest, NonsenseIsNoLimit) {
  InGroups("garbage\n\n0::no-slash\n");
  for (const char* text : {"", "100000", "x y", "-5 100000", "100000 0", "1 2 3"}) {
    Limit("cpu.max", text);
    EXPECT_EQ(CpuLimit(), 0) << text;
  }
}

TEST_F(CgroupTest, MemoryIsThatOfTheTightestGroup) {
  EXPECT_EQ(CgroupMemoryLimit(root_.path()), 0);
  InGroups("0::/a/b\n");
  Limit("a/memory.max", "536870912");
  Limit("a/b/memory.max", "max");
  EXPECT_EQ(CgroupMemoryLimit(root_.path()), 512 << 20);
  Limit("a/b/memory.max", "268435456");
  EXPECT_EQ(CgroupMemoryLimit(root_.path()), 256 << 20);
}

TEST_F(CgroupTest, V1MemoryWithoutALimitIsANumberThatNoMachineHas) {
  InGroups("9:memory:/docker/abc\n4:cpu:/other\n");
  Limit("memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(CgroupMemoryLimit(root_.path()), 0);
  Limit("memory/docker/abc/memory.limit_in_bytes", "1073741824");
  EXPECT_EQ(CgroupMemoryLimit(root_.path()), 1 << 30);
}

TEST(CpuBudgetTest, IsAtLeastOneAndAtMostTheAffinity) {
  EXPECT_GE(CpuBudget(), 1);
  EXPECT_LE(CpuBudget(), AffinityCpus());
}

TEST(CpuBudgetTest, FollowsTheAffinityMask) {
  int budget = 0;
  int cpus = 0;
  std::thread([&] {  // a thread of its own: the mask goes with it
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(sched_getcpu(), &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
    cpus = AffinityCpus();
    budget = CpuBudget();
  })
      .join();
  EXPECT_EQ(cpus, 1);
  EXPECT_EQ(budget, 1);
}

}  // namespace
}  // namespace attention
