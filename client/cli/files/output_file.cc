#include "client/cli/files/output_file.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace attention {

absl::Status WriteFile(const std::string& path, std::initializer_list<absl::string_view> parts) {
  std::error_code ignored;
  // A pipe or a terminal, such as /dev/stdout, is written in place.
  const bool is_device =
      std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored);
  const std::string written = is_device ? path : absl::StrCat(path, ".part");
  std::ofstream file(written, std::ios::binary | std::ios::trunc);
  for (const absl::string_view part : parts) {
    file.write(part.data(), static_cast<std::streamsize>(part.size()));
  }
  file.close();
  if (!file || (!is_device && std::rename(written.c_str(), path.c_str()) != 0)) {
    if (!is_device) {
      std::remove(written.c_str());
    }
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be written"));
  }
  return absl::OkStatus();
}

absl::Status WriteOutput(const std::string& path, const std::string& text) {
  if (path != "-") {
    return WriteFile(path, {text});
  }
  std::cout << text << std::flush;
  return std::cout ? absl::OkStatus() : absl::UnavailableError("standard output is closed");
}

}  // namespace attention
