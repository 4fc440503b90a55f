#include "server/security/file_watch.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"

namespace attention {

bool FileWatch::HasChanged() {
  std::string now = "seen";
  for (const std::string& path : paths_) {
    struct stat found = {};
    if (stat(path.c_str(), &found) != 0) {
      found = {};
    }
    absl::StrAppend(&now, " ", found.st_dev, ":", found.st_ino, ":", found.st_size, ":",
                    found.st_mtim.tv_sec, ":", found.st_mtim.tv_nsec, ":", found.st_ctim.tv_sec,
                    ":", found.st_ctim.tv_nsec);
  }
  return std::exchange(last_, now) != now;
}

}  // namespace attention
