// A folder of models on disk: its contents and its paths.
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

/// Returns the canonical path of `file` (relative to `folder`); symbolic links are followed.
/// NOT_FOUND when there is no such file; INVALID_ARGUMENT when the path leads out of the folder (by
/// "..", as an absolute path or by a link), or when it is neither a regular file nor a folder.
absl::StatusOr<std::string> ResolveInside(const std::string& folder, const std::string& file);

/// Parses the number of a version: a decimal of 1 to 2^63 - 1. Returns false when it is none.
bool ParseVersion(const std::string& text, int64_t& version);

/// One version of a model, as far as names and sizes tell.
struct FoundVersion {
  /// The canonical path of the version's folder.
  std::string folder;
  /// A text that changes when a file is added, removed, replaced or written to, also in folders
  /// below (of their first 4,096 files).
  std::string fingerprint;
  /// Why the version cannot be loaded: a path that leads out of the folder, no config.json.
  absl::Status status = {};

  bool operator==(const FoundVersion&) const = default;
};

struct FoundModel {
  /// Why no version can be loaded: an invalid name, a path that leads out of the folder, an empty
  /// folder.
  absl::Status status = {};
  std::map<int64_t, FoundVersion> versions = {};

  bool operator==(const FoundModel&) const = default;
};

/// The models by name. Bytes of a name that are not printable are escaped.
using FoundModels = std::map<std::string, FoundModel>;

/// Lists every folder in `folder`. It skips files, and names that begin with a dot. NOT_FOUND or
/// INVALID_ARGUMENT when `folder` itself cannot be read.
absl::StatusOr<FoundModels> ScanModelFolder(const std::string& folder);

/// Returns the current FoundVersion::fingerprint of a folder; empty when the folder cannot be read.
std::string FingerprintOf(const std::string& folder);

}  // namespace attention
