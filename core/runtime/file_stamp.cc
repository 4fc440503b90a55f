#include "core/runtime/file_stamp.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"

namespace attention {

std::string FileStamp(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) {
    return "none";
  }
  return absl::StrCat(file.st_dev, ":", file.st_ino, ":", file.st_size, ":", file.st_mtim.tv_sec,
                      ".", file.st_mtim.tv_nsec, ":", file.st_ctim.tv_sec, ".",
                      file.st_ctim.tv_nsec);
}

}  // namespace attention
