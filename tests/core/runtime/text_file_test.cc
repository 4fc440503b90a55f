#include "core/runtime/text_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

TEST(TextFileTest, IsReadUpToItsBound) {
  const TempFolder folder;
  const std::string path = folder.path() + "/text";
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65536}, size_t{65537}}) {
    const std::string text(size, 'a');
    std::ofstream(path) << text;
    const absl::StatusOr<std::string> read = ReadTextFile(path, size);
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(*read, text);
    if (size > 0) {
      EXPECT_THAT(
          ReadTextFile(path, size - 1),
          StatusIs(absl::StatusCode::kInvalidArgument,
                   absl::StrCat(path, ": expected at most ", size - 1, " bytes, found more")));
    }
  }
}

TEST(TextFileTest, WhatIsNoFileIsSaid) {
  const TempFolder folder;
  EXPECT_THAT(ReadTextFile(folder.path(), 100),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "cannot read " + folder.path() + ": Is a directory"));
  EXPECT_THAT(ReadTextFile(folder.path() + "/none", 100),
              StatusIs(absl::StatusCode::kNotFound,
                       "cannot read " + folder.path() + "/none: No such file or directory"));
}

}  // namespace
}  // namespace attention
