// Files that are replaced while the server runs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace attention {

/// Detects whether files have changed, by what stat says about them. Links are followed, so that
/// the replacement of a Kubernetes secret is detected.
class FileWatch {
 public:
  explicit FileWatch(std::vector<std::string> paths) : paths_(std::move(paths)) {}

  /// Returns true the first time, and when a file has changed, appeared or disappeared since the
  /// last call.
  bool HasChanged();
  /// Returns INVALID_ARGUMENT that names a path which is now something else than a file: reading a
  /// pipe would wait for its writer, and all calls with it.
  absl::Status CheckFiles() const;
  /// Makes the next call of HasChanged return true again, since the files could not be read.
  void Forget() { last_.clear(); }

 private:
  const std::vector<std::string> paths_;
  std::string last_;
};

}  // namespace attention
