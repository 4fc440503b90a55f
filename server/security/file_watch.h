// Files that are replaced while the server runs.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace attention {

/// Detects whether files have changed, by what stat says about them. Links are followed, so that
/// the replacement of a Kubernetes secret is detected. Thread-safe, apart from HasChanged.
class FileWatch {
 public:
  /// `kept` says in the log what an error of the files leaves in use: "the tokens that were read
  /// before stay in use".
  FileWatch(std::vector<std::string> paths, std::string kept)
      : paths_(std::move(paths)), kept_(std::move(kept)) {}

  /// Returns true the first time, and when a file has changed, appeared or disappeared since the
  /// last call. Not while another thread calls Update.
  bool HasChanged();
  /// Calls `read` if a file has changed, or if a second has passed since it returned an error: the
  /// cause need not be in the files. Logs an error that differs from the one before. It is also an
  /// error if a path is now something else than a file: reading a pipe would wait for its writer.
  /// After an exception the next call reads again. Does nothing while another thread is in Update:
  /// a file of 16 MiB, or a file system that hangs, keeps one caller waiting and no other.
  void Update(absl::FunctionRef<absl::Status()> read);
  /// Returns whether the last reading succeeded.
  bool are_valid() const { return are_valid_; }

 private:
  absl::Status CheckFiles() const;

  const std::vector<std::string> paths_;
  const std::string kept_;
  std::atomic<bool> are_valid_ = true;
  std::atomic<bool> is_busy_ = false;
  // Of the thread that has set is_busy_.
  std::string last_;
  absl::Status failure_;
  std::chrono::steady_clock::time_point next_try_;
};

}  // namespace attention
