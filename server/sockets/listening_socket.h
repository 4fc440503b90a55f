// A file descriptor with an owner, and sockets that listen.
#pragma once

#include <string>
#include <utility>
#include <vector>

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
  /// Somebody else's from now on.
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// None of them blocks.
struct ListeningSockets {
  std::vector<FileDescriptor> sockets;
  /// As asked for, with the port that was chosen for a port 0.
  std::string address;
};

/// HOST:PORT, or [HOST]:PORT for an IPv6 address: on every address that the host has, those that
/// cannot be listened on left out; 0.0.0.0 and [::] are every address of both families.
/// unix:/PATH: a socket that a process has left behind is replaced. INVALID_ARGUMENT for what is no
/// such address; UNAVAILABLE for one that cannot be listened on.
absl::StatusOr<ListeningSockets> ListenOn(const std::string& address);

}  // namespace attention
