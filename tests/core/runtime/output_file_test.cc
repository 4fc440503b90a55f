#include "core/runtime/output_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(WriteFileTest, ReplacesTheFileToWhichALinkLeadsAndKeepsTheLink) {
  const TempFolder folder;
  const std::string target = folder.Write("target", "old");
  const std::string link = folder.path() + "/link";
  std::filesystem::create_symlink("target", link);
  ASSERT_THAT(CheckWritable(link), IsOk());
  ASSERT_THAT(WriteFile(link, {"n", "ew"}), IsOk());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(TextOf(target), "new");
}

TEST(WriteFileTest, ReplacesALinkThatLeadsNowhere) {
  const TempFolder folder;
  const std::string link = folder.path() + "/link";
  std::filesystem::create_symlink("nothing", link);
  ASSERT_THAT(WriteFile(link, {"new"}), IsOk());
  EXPECT_EQ(TextOf(link), "new");
}

TEST(WriteFileTest, AnErrorNamesThePathAsItWasGiven) {
  const TempFolder folder;
  const std::string path = folder.path() + "/none/file";
  EXPECT_THAT(WriteFile(path, {"new"}),
              StatusIs(absl::StatusCode::kNotFound, ::testing::HasSubstr(path)));
  EXPECT_THAT(CheckWritable(path),
              StatusIs(absl::StatusCode::kNotFound, ::testing::HasSubstr(path)));
}

}  // namespace
}  // namespace attention
