#include "server/security/file_watch.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/file_stamp.h"
#include "core/runtime/status_macros.h"

namespace attention {

bool FileWatch::HasChanged() {
  std::string now = "seen";
  for (const std::string& path : paths_) {
    absl::StrAppend(&now, " ", FileStamp(path));
  }
  return std::exchange(last_, now) != now;
}

absl::Status FileWatch::Update(absl::FunctionRef<absl::Status()> read) {
  if (!HasChanged()) {
    return absl::OkStatus();
  }
  absl::Cleanup forget = [this] { last_.clear(); };
  RETURN_IF_ERROR(CheckFiles());
  RETURN_IF_ERROR(read());
  std::move(forget).Cancel();
  return absl::OkStatus();
}

absl::Status FileWatch::CheckFiles() const {
  for (const std::string& path : paths_) {
    std::error_code error;  // what is absent is reported by its reader
    const std::filesystem::file_status found = std::filesystem::status(path, error);
    if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": expected a file, found a folder, a pipe or a device"));
    }
  }
  return absl::OkStatus();
}

}  // namespace attention
