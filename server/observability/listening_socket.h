// A file descriptor with an owner, and a TCP socket that listens.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace attention {

/// Closes it.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number = -1) : number_(number) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  int get() const { return number_; }

 private:
  int number_;
};

struct ListeningSocket {
  FileDescriptor socket;  // does not block
  /// As asked for, with the port that was chosen for a port 0.
  std::string address;
};

/// HOST:PORT, or [HOST]:PORT for an IPv6 address. INVALID_ARGUMENT for what is no such address;
/// UNAVAILABLE for one that cannot be listened on.
absl::StatusOr<ListeningSocket> ListenOn(const std::string& address);

}  // namespace attention
