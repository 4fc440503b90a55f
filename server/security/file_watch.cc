#include "server/security/file_watch.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/file_stamp.h"
#include "server/log/log.h"

namespace attention {

bool FileWatch::HasChanged() {
  std::string now = "seen";
  for (const std::string& path : paths_) {
    absl::StrAppend(&now, " ", FileStamp(path));
  }
  return std::exchange(last_, now) != now;
}

void FileWatch::Update(absl::FunctionRef<absl::Status()> read) {
  constexpr std::chrono::milliseconds kPauseAfterError{
      900};  // a little less than between two looks (TokenStore)
  if (is_busy_.exchange(true)) {
    return;
  }
  const absl::Cleanup leave = [this] { is_busy_ = false; };
  if (!HasChanged() && (failure_.ok() || std::chrono::steady_clock::now() < next_try_)) {
    return;
  }
  absl::Cleanup forget = [this] { last_.clear(); };
  absl::Status status = CheckFiles();
  if (status.ok()) {
    status = read();
  }
  if (!status.ok() && status != failure_) {
    Log(LogLevel::kError, absl::StrCat(kept_, ": ", std::string(status.message())));
  }
  failure_ = std::move(status);
  are_valid_ = failure_.ok();
  next_try_ = std::chrono::steady_clock::now() + kPauseAfterError;
  std::move(forget).Cancel();
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
