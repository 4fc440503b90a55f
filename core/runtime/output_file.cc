#include "core/runtime/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace attention {

absl::Status WriteFile(const std::string& path, const std::vector<absl::string_view>& parts) {
  std::error_code ignored;
  const bool is_in_place =
      std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored);
  const std::string written = is_in_place ? path : absl::StrCat(path, ".", getpid(), ".part");
  errno = 0;
  std::ofstream file(written, std::ios::binary | std::ios::trunc);
  for (const absl::string_view part : parts) {
    file.write(part.data(), static_cast<std::streamsize>(part.size()));
  }
  file.close();
  if (file && (is_in_place || std::rename(written.c_str(), path.c_str()) == 0)) {
    return absl::OkStatus();
  }
  const int error = errno == 0 ? EIO : errno;
  if (!is_in_place) {
    std::remove(written.c_str());
  }
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot be written"));
}

}  // namespace attention
