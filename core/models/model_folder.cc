#include "core/models/model_folder.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/models/model_name.h"
#include "core/runtime/file_stamp.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

namespace fs = std::filesystem;

/// `expected` is what the path must name: "a file", "a folder".
absl::StatusOr<fs::path> Canonical(const fs::path& path, const char* expected) {
  std::error_code error;
  fs::path canonical = fs::canonical(path, error);
  if (!error) {
    return canonical;
  }
  const std::string text =
      absl::StrCat(path.string(), ": expected ", expected, ", found: ", error.message());
  return error == std::errc::no_such_file_or_directory ? absl::NotFoundError(text)
                                                       : absl::InvalidArgumentError(text);
}

bool IsInside(const fs::path& root, const fs::path& path) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

absl::Status Escapes(const fs::path& path, const fs::path& root, const std::string& found) {
  return absl::InvalidArgumentError(absl::StrCat(
      path.string(), ": path escapes: expected one inside ", root.string(), ", found ", found));
}

absl::Status Unreadable(const std::string& folder, int error) {
  const bool lacks_room = error == EMFILE || error == ENFILE || error == ENOMEM;
  return absl::Status(
      lacks_room ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInvalidArgument,
      absl::StrCat(folder, ": expected a folder that can be read, found: ",
                   std::generic_category().message(error)));
}

/// Returns the names in `folder` in order, without those that begin with a dot and without
/// lost+found, which ext4 creates at the root of every volume. It uses no directory_iterator, which
/// does not survive bad_alloc.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder) {
  DIR* const entries = opendir(folder.c_str());
  if (entries == nullptr) {
    return Unreadable(folder, errno);
  }
  const auto close = absl::MakeCleanup([entries] { closedir(entries); });
  std::vector<std::string> names;
  errno = 0;
  for (const dirent* entry = readdir(entries); entry != nullptr; entry = readdir(entries)) {
    std::string name = entry->d_name;
    if (name.front() != '.' && name != "lost+found") {
      names.push_back(std::move(name));
    }
    errno = 0;
  }
  if (errno != 0) {
    return Unreadable(folder, errno);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Whether `path` is a folder or a link to one. A dangling link counts as a folder, so that it is
/// reported.
bool IsFolderOrDangling(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return fs::is_directory(status) || !fs::exists(status);
}

FoundVersion LookAtVersion(const std::string& root, const std::string& path) {
  absl::StatusOr<std::string> folder = ResolveInside(root, path);
  if (!folder.ok()) {
    return {.folder = {}, .fingerprint = {}, .status = folder.status()};
  }
  FoundVersion version{.folder = *folder, .fingerprint = FingerprintOf(*folder)};
  const absl::StatusOr<std::string> config = ResolveInside(*folder, "config.json");
  version.status = config.status();
  std::error_code error;
  if (config.ok() && !fs::is_regular_file(*config, error)) {
    version.status =
        absl::InvalidArgumentError(absl::StrCat(*config, ": expected a file, found none"));
  }
  return version;
}

/// The levels of folders below that of a version, and the number of files in them, of which changes
/// are noticed: the shards of an index may lie there. A folder with more is no checkpoint, and each
/// poll would take long.
constexpr int kFolderDepth = 4;
constexpr int kMostFilesBelow = 4096;

/// Appends the stamps of what is in the folder `folder`/`below`, and in its own folders. Links to
/// folders are not followed: they might lead anywhere.
void AppendStamps(const std::string& folder, const std::string& below, int depth, int& files_left,
                  std::string& fingerprint) {
  const absl::StatusOr<std::vector<std::string>> names = NamesIn(folder + below);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    if (!below.empty() && files_left-- <= 0) {
      return;
    }
    const std::string own = absl::StrCat(below, "/", name);
    // A dangling link counts too: its target may be created later.
    absl::StrAppend(&fingerprint, own, ":", FileStamp(folder + own), "\n");
    std::error_code error;
    if (depth > 0 && fs::is_directory(fs::symlink_status(folder + own, error))) {
      AppendStamps(folder, own, depth - 1, files_left, fingerprint);
    }
  }
}

void AddVersion(int64_t version, FoundVersion found, FoundModel& model) {
  const auto [at, is_new] = model.versions.emplace(version, std::move(found));
  if (!is_new) {
    at->second.status = absl::InvalidArgumentError(
        absl::StrCat(at->second.folder, ": expected one folder for version ", version,
                     ", found another whose name has other leading zeros"));
  }
}

FoundModel LookAtModel(const std::string& root, const std::string& name) {
  FoundModel model{.status = ValidateModelName(name)};
  const absl::StatusOr<std::string> folder =
      model.status.ok() ? ResolveInside(root, name) : absl::StatusOr<std::string>(model.status);
  const absl::StatusOr<std::vector<std::string>> names =
      folder.ok() ? NamesIn(*folder) : folder.status();
  if (!names.ok()) {
    return {.status = names.status()};
  }
  const bool has_config = std::binary_search(names->begin(), names->end(), "config.json");
  for (const std::string& item : *names) {
    int64_t version = 0;
    if (ParseVersion(item, version) && IsFolderOrDangling(fs::path(*folder) / item)) {
      AddVersion(version, LookAtVersion(root, absl::StrCat(name, "/", item)), model);
    }
  }
  if (has_config == !model.versions.empty()) {
    return {.status = absl::InvalidArgumentError(absl::StrCat(
                *folder, ": expected config.json, or folders named by a version, found ",
                has_config       ? "both"
                : names->empty() ? "nothing"
                                 : absl::CEscape(absl::StrJoin(*names, ", "))))};
  }
  if (has_config) {
    AddVersion(1, LookAtVersion(root, name), model);
  }
  return model;
}

}  // namespace

bool ParseVersion(const std::string& text, int64_t& version) {
  return std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, &version) && version > 0;
}

absl::StatusOr<std::string> ResolveInside(const std::string& folder, const std::string& file) {
  ASSIGN_OR_RETURN(const fs::path root, Canonical(folder, "a folder"));
  const fs::path given = fs::path(folder) / file;
  // Such a name is refused before any look-up: an error must not reveal what exists outside.
  const fs::path normal = fs::path(file).lexically_normal();
  if (normal.is_absolute() || (!normal.empty() && *normal.begin() == "..")) {
    return Escapes(given, root, normal.string());
  }
  ASSIGN_OR_RETURN(const fs::path path, Canonical(given, "a file"));
  if (!IsInside(root, path)) {
    return Escapes(
        given, root,
        absl::StrCat(path.string(), " behind a link (cp -rL copies what links lead to)"));
  }
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::is_regular_file(status) && !fs::is_directory(status)) {
    // Opening a pipe would wait for its writer.
    return absl::InvalidArgumentError(
        absl::StrCat(given.string(), ": expected a regular file, found none"));
  }
  return path.string();
}

absl::StatusOr<FoundModels> ScanModelFolder(const std::string& folder) {
  ASSIGN_OR_RETURN(const fs::path root, Canonical(folder, "a folder"));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(root.string()));
  FoundModels models;
  for (const std::string& name : names) {
    if (IsFolderOrDangling(root / name)) {
      models.emplace(absl::CEscape(name), LookAtModel(root.string(), name));
    }
  }
  return models;
}

std::string FingerprintOf(const std::string& folder) {
  std::string fingerprint;
  int files_left = kMostFilesBelow;
  AppendStamps(folder, "", kFolderDepth, files_left, fingerprint);
  return fingerprint;
}

}  // namespace attention
