// Files that are replaced while the server runs.
#pragma once

#include <string>
#include <vector>

namespace attention {

/// Detects whether files have changed, by what stat says about them. Links are followed, so that
/// the replacement of a Kubernetes secret is detected.
class FileWatch {
 public:
  explicit FileWatch(std::vector<std::string> paths) : paths_(std::move(paths)) {}

  /// Returns true the first time, and when a file has changed, appeared or disappeared since the
  /// last call.
  bool HasChanged();
  /// Makes the next call return true again, since the files could not be read.
  void Forget() { last_.clear(); }

 private:
  const std::vector<std::string> paths_;
  std::string last_;
};

}  // namespace attention
