#include "core/runtime/output_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
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

TEST(WriteFileTest, KeepsThePermissionsOfWhatItReplaces) {
  namespace fs = std::filesystem;
  const TempFolder folder;
  const std::string path = folder.Write("secret", "old");
  // A file that may not be written is replaced, too: that is for its folder to allow.
  for (const fs::perms perms :
       {fs::perms::owner_read | fs::perms::owner_write, fs::perms::owner_read, fs::perms::all}) {
    fs::permissions(path, perms);
    ASSERT_THAT(WriteFile(path, {"new"}), IsOk());
    EXPECT_EQ(fs::status(path).permissions(), perms);
    EXPECT_EQ(TextOf(path), "new");
  }
}

TEST(WriteFileTest, WritesToNoFileThatOthersPutBesideIt) {
  const TempFolder folder;
  const std::string path = folder.path() + "/file";
  const std::string theirs = folder.Write("theirs", "untouched");
  std::filesystem::create_symlink(theirs, absl::StrCat(path, ".", getpid(), ".0.part"));
  ASSERT_THAT(WriteFile(path, {"new"}), IsOk());
  EXPECT_EQ(TextOf(path), "new");
  EXPECT_EQ(TextOf(theirs), "untouched");
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
