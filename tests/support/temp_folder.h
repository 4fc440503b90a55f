// A folder of its own for a test that needs files.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace attention {

/// Empty at first; removed with all it holds.
class TempFolder {
 public:
  TempFolder() : path_(::testing::TempDir() + "attend_test_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) {
      std::abort();
    }
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }

  /// Writes `name` below the folder, with the folders it needs, and returns its path.
  std::string Write(const std::string& name, const std::string& contents) const {
    const std::filesystem::path file = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << contents;
    return file.string();
  }

 private:
  std::string path_;
};

}  // namespace attention
