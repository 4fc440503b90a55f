// A model whose tokenizer.json cannot be used takes ids, but no text, and says why.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "core/models/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/models/loaded_model.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Loads a golden checkpoint beside whatever `put` makes of the path of its tokenizer.json.
absl::StatusOr<LoadedModel> LoadWith(const std::function<void(const fs::path&)>& put) {
  const TempFolder folder;
  fs::copy(TestCheckpointPath("models/gpt2"), folder.path(),
           fs::copy_options::overwrite_existing | fs::copy_options::recursive);
  put(fs::path(folder.path()) / "tokenizer.json");
  return LoadModel({.name = "m", .folder = folder.path()}, WeightsDtype::kF32);
}

TEST(BrokenTokenizerTest, AModelWithoutATokenizerHasNoErrorToTell) {
  const auto loaded = LoadWith([](const fs::path&) {});
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->model->tokenizer(), nullptr);
  EXPECT_THAT(loaded->tokenizer_status, IsOk());
}

TEST(BrokenTokenizerTest, WhateverStandsInItsPlaceIsNamed) {
  struct BrokenFile {
    std::function<void(const fs::path&)> put;
    const char* found;
  };
  const BrokenFile files[] = {
      {[](const fs::path& path) { std::ofstream(path) << "{}"; },
       "model: expected an object, found none"},
      {[](const fs::path& path) { fs::create_directory(path); }, "Is a directory"},
      {[](const fs::path& path) { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); },
       "expected a regular file, found none"},
      {[](const fs::path& path) { fs::create_symlink("/dev/zero", path); },
       "found /dev/zero behind a link"},
      {[](const fs::path& path) { fs::create_symlink("nothing", path); },
       "expected a file, found: No such file or directory"},
      {[](const fs::path& path) {
         std::ofstream(path) << "{";
         fs::resize_file(path, (64 << 20) + 1);  // of zeros that are nowhere
       },
       "expected at most 67108864 bytes, found more"},
  };
  for (const BrokenFile& broken : files) {
    const auto loaded = LoadWith(broken.put);
    ASSERT_THAT(loaded, IsOk()) << broken.found;
    EXPECT_EQ(loaded->model->tokenizer(), nullptr) << broken.found;
    EXPECT_THAT(std::string(loaded->tokenizer_status.message()),
                AllOf(HasSubstr("/tokenizer.json"), HasSubstr(broken.found)));
  }
}

}  // namespace
}  // namespace attention
