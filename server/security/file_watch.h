// Files that are replaced while the server runs.
#pragma once

#include <string>
#include <vector>

namespace attention {

/// Tells whether files are others than before, by what stat says of them (a link is followed, so
/// that a Kubernetes secret's swap is seen).
class FileWatch {
 public:
  explicit FileWatch(std::vector<std::string> paths) : paths_(std::move(paths)) {}

  /// True the first time, and when a file has changed, come or gone since the last time.
  bool HasChanged();
  /// They could not be read: the next look is as the first.
  void Forget() { last_.clear(); }

 private:
  const std::vector<std::string> paths_;
  std::string last_;
};

}  // namespace attention
