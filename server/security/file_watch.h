// Files that are replaced while the server runs.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace attention {

/// Detects whether files have changed, by what stat says about them. Links are followed, so that
/// the replacement of a Kubernetes secret is detected.
class FileWatch {
 public:
  /// `kept` says in the log what an error of the files leaves in use: "the tokens that were read
  /// before stay in use".
  FileWatch(std::vector<std::string> paths, std::string kept)
      : paths_(std::move(paths)), kept_(std::move(kept)) {}

  /// Returns true the first time, and when a file has changed, appeared or disappeared since the
  /// last call.
  bool HasChanged();
  /// Calls `read` if a file has changed, or if a second has passed since it returned an error: the
  /// cause need not be in the files. Logs an error that differs from the one before. It is also an
  /// error if a path is now something else than a file: reading a pipe would wait for its writer,
  /// and all calls with it. After an exception the next call reads again.
  void Update(absl::FunctionRef<absl::Status()> read);
  /// Returns whether the last reading succeeded.
  bool are_valid() const { return failure_.ok(); }

 private:
  absl::Status CheckFiles() const;

  const std::vector<std::string> paths_;
  const std::string kept_;
  std::string last_;
  absl::Status failure_;
  std::chrono::steady_clock::time_point next_try_;
};

}  // namespace attention
