#include "core/runtime/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace attention {
namespace {

absl::Status CannotBeWritten(const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot be written"));
}

/// Whether `path` is something else than a file, and so is not replaced.
bool IsInPlace(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored);
}

/// Returns the file to which `path` leads if it is a link, and otherwise `path`.
std::string TargetOf(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_symlink(path, error)) {
    const std::filesystem::path target = std::filesystem::canonical(path, error);
    return error ? path : target.string();
  }
  return path;
}

/// Makes an empty file beside `path`, with the permissions `mode` as far as the process's mask
/// allows, and sets `made` to its name. Returns false, with errno.
bool MakeBeside(const std::string& path, mode_t mode, std::string& made) {
  int file = -1;
  errno = EEXIST;
  // Another thread, or a process that died, may have taken a name.
  for (int i = 0; file < 0 && errno == EEXIST; ++i) {
    made = absl::StrCat(path, ".", getpid(), ".", i, ".part");
    file = open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  }
  if (file >= 0) {
    close(file);
  }
  return file >= 0;
}

}  // namespace

absl::Status WriteFile(const std::string& name, const std::vector<absl::string_view>& parts) {
  const std::string path = TargetOf(name);
  const bool is_in_place = IsInPlace(path);
  std::string written = path;
  struct stat replaced = {};
  const bool replaces = !is_in_place && stat(path.c_str(), &replaced) == 0;
  if (!is_in_place && !MakeBeside(path, replaces ? 0600 : 0666, written)) {
    return CannotBeWritten(name, errno);
  }
  errno = 0;
  std::ofstream file(written, std::ios::binary | std::ios::trunc);
  for (const absl::string_view part : parts) {
    file.write(part.data(), static_cast<std::streamsize>(part.size()));
  }
  file.close();
  if (replaces) {
    chmod(written.c_str(), replaced.st_mode & 0777);
  }
  if (file && (is_in_place || std::rename(written.c_str(), path.c_str()) == 0)) {
    return absl::OkStatus();
  }
  const int error = errno == 0 ? EIO : errno;
  if (!is_in_place) {
    std::remove(written.c_str());
  }
  return CannotBeWritten(name, error);
}

absl::Status CheckWritable(const std::string& name) {
  std::error_code ignored;
  const std::string path = TargetOf(name);
  const bool is_in_place = IsInPlace(path);
  const std::string folder = std::filesystem::path(path).parent_path();
  const std::string written = is_in_place ? path : folder.empty() ? "." : folder;
  if (is_in_place && std::filesystem::is_directory(path, ignored)) {
    return CannotBeWritten(name, EISDIR);
  }
  if (access(written.c_str(), is_in_place ? W_OK : W_OK | X_OK) != 0) {
    return CannotBeWritten(name, errno);
  }
  return absl::OkStatus();
}

}  // namespace attention
