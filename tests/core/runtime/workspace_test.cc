#include "core/runtime/workspace.h"

#include <cstdint>

#include "gmock/gmock.h"

namespace attention {
namespace {

constexpr BufferName kInput{"input"};
constexpr BufferName kOther{"other"};

TEST(WorkspaceTest, KeepsMemoryForTheNextCall) {
  ThreadPool pool(2);
  Workspace workspace(pool);
  std::byte* const first = workspace.Buffer(kInput, 1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  EXPECT_EQ(workspace.Buffer(kInput, 10), first);
  EXPECT_EQ(workspace.Buffer(kInput, 1000), first);
  EXPECT_EQ(workspace.size_bytes(), 1000u);
}

TEST(WorkspaceTest, BuffersAndWorkersHaveMemoryOfTheirOwn) {
  ThreadPool pool(2);
  Workspace workspace(pool);
  EXPECT_NE(workspace.Buffer(kInput, 64), workspace.Buffer(kOther, 64));
  EXPECT_NE(workspace.Scratch(0, 64), workspace.Scratch(1, 64));
  EXPECT_EQ(workspace.size_bytes(), 256u);
}

TEST(WorkspaceTest, TrimGivesBackOnlyWhatIsTooMuch) {
  ThreadPool pool(1);
  Workspace workspace(pool);
  workspace.Buffer(kInput, 600);
  workspace.Scratch(0, 400);
  workspace.Trim(1000);
  EXPECT_EQ(workspace.size_bytes(), 1000u);
  workspace.Trim(999);
  EXPECT_EQ(workspace.size_bytes(), 0u);
}

}  // namespace
}  // namespace attention
