#include "core/models/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<fs::path> Canonical(const fs::path& path) {
  std::error_code error;
  fs::path canonical = fs::canonical(path, error);
  if (!error) {
    return canonical;
  }
  const std::string text =
      absl::StrCat(path.string(), ": expected a file, found: ", error.message());
  return error == std::errc::no_such_file_or_directory ? absl::NotFoundError(text)
                                                       : absl::InvalidArgumentError(text);
}

bool IsInside(const fs::path& root, const fs::path& path) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

absl::Status Escapes(const fs::path& path, const fs::path& root, const fs::path& target) {
  return absl::InvalidArgumentError(absl::StrCat(path.string(),
                                                 ": path escapes: expected one inside ",
                                                 root.string(), ", found ", target.string()));
}

}  // namespace

absl::StatusOr<std::string> ResolveInside(const std::string& folder, const std::string& file) {
  ASSIGN_OR_RETURN(const fs::path root, Canonical(folder));
  const fs::path given = fs::path(folder) / file;
  // Such a name is refused before anything is looked up: an error must not tell what exists there.
  const fs::path normal = fs::path(file).lexically_normal();
  if (normal.is_absolute() || (!normal.empty() && *normal.begin() == "..")) {
    return Escapes(given, root, normal);
  }
  ASSIGN_OR_RETURN(const fs::path path, Canonical(given));
  if (!IsInside(root, path)) {
    return Escapes(given, root, path);
  }
  return path.string();
}

}  // namespace attention
