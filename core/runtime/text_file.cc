#include "core/runtime/text_file.h"

#include <cerrno>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace attention {

absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t max_bytes) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("cannot read ", path, ": ", std::generic_category().message(errno)));
  }
  constexpr size_t kPieceBytes = size_t{64} << 10;
  std::string text;
  while (file && text.size() <= max_bytes) {
    const size_t known_bytes = text.size();
    text.resize(known_bytes + kPieceBytes);
    file.read(&text[known_bytes], kPieceBytes);
    text.resize(known_bytes + file.gcount());
  }
  if (file.bad()) {  // a folder
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": ", std::generic_category().message(errno)));
  }
  if (text.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected at most ", max_bytes, " bytes, found more"));
  }
  return text;
}

}  // namespace attention
