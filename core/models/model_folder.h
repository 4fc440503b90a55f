// A folder of models on disk: what is in it, and where its paths lead.
//
//   DIR/NAME/config.json + model.safetensors      version 1 of NAME
//   DIR/NAME/VERSION/config.json + ...            VERSION a decimal
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace attention {

/// The canonical path of `file` (relative to `folder`), symbolic links followed. NOT_FOUND when
/// there is no such file; INVALID_ARGUMENT when the path escapes the folder, by "..", by being
/// absolute or by a link, or when it is neither a regular file nor a folder.
absl::StatusOr<std::string> ResolveInside(const std::string& folder, const std::string& file);

/// One version of a model, as far as names and sizes tell.
struct FoundVersion {
  /// Canonical.
  std::string folder;
  /// Changes when a file is added, removed, replaced or written to.
  std::string fingerprint;
  /// Why it cannot be loaded: a path that escapes, no config.json.
  absl::Status status = {};

  bool operator==(const FoundVersion&) const = default;
};

struct FoundModel {
  /// Why nothing of it can be loaded: a name that is none, a path that escapes, nothing inside.
  absl::Status status = {};
  std::map<int64_t, FoundVersion> versions = {};

  bool operator==(const FoundModel&) const = default;
};

/// Name -> what stands under it. Bytes of a name that are not printable are escaped.
using FoundModels = std::map<std::string, FoundModel>;

/// Looks at every folder of `folder`; files, and whatever has a name that begins with a dot, are
/// passed over. NOT_FOUND or INVALID_ARGUMENT when `folder` itself cannot be read.
absl::StatusOr<FoundModels> ScanModelFolder(const std::string& folder);

/// FoundVersion::fingerprint of a folder as it is now; empty when it cannot be read.
std::string FingerprintOf(const std::string& folder);

}  // namespace attention
