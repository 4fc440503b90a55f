// Files that are replaced while the server runs.
#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
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
  /// Calls `read` if a file has changed, and returns its error. INVALID_ARGUMENT names a path which
  /// is now something else than a file: reading a pipe would wait for its writer, and all calls
  /// with it. After an error or an exception the next call reads again.
  absl::Status Update(absl::FunctionRef<absl::Status()> read);

 private:
  absl::Status CheckFiles() const;

  const std::vector<std::string> paths_;
  std::string last_;
};

}  // namespace attention
