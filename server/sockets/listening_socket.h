// A file descriptor with an owner, and sockets that listen.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace attention {

/// Owns a file descriptor, and closes it.
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
  /// Gives the descriptor away: the caller closes it.
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// The result of one attempt to accept a connection.
struct Accepted {
  /// The connection, whose reads and writes do not block. Its number is negative if no connection
  /// was waiting, or if it has ended meanwhile.
  FileDescriptor connection;
  /// Why the system could not accept it (errno), in most cases for lack of file descriptors or
  /// memory; 0: it could, or none was waiting. The connection keeps waiting, so the caller pauses
  /// for kPauseAfterFailure before the next attempt.
  int error = 0;
};
inline constexpr std::chrono::milliseconds kPauseAfterFailure{200};

/// Accepts one connection of a socket that does not block. Thread-safe.
Accepted AcceptConnection(const FileDescriptor& listener);

/// Owns the file of a unix socket, and removes it, unless something else is at its path by then. It
/// ends before the socket is closed: no other file can have its numbers until then.
class SocketFile {
 public:
  SocketFile(std::string path, dev_t device, ino_t inode)
      : path_(std::move(path)), device_(device), inode_(inode) {}
  ~SocketFile();
  SocketFile(SocketFile&& other) noexcept
      : path_(std::exchange(other.path_, "")), device_(other.device_), inode_(other.inode_) {}
  SocketFile& operator=(SocketFile&&) = delete;

 private:
  std::string path_;  // empty: given away
  dev_t device_;
  ino_t inode_;
};

/// Sockets that listen on one address; none of them blocks.
struct ListeningSockets {
  std::vector<FileDescriptor> sockets;
  /// Of a unix socket. After the sockets, so that it ends first.
  std::optional<SocketFile> file;
  /// The requested address, with the chosen port in the place of port 0.
  std::string address;
};

/// Listens on HOST:PORT, or [HOST]:PORT for an IPv6 address: on every address that the host has,
/// except those that this machine lacks; 0.0.0.0 and [::] stand for every address of both families.
/// Also listens on unix:/PATH, where it replaces a socket that another process has left behind; of
/// several calls at once, in any processes, one succeeds. INVALID_ARGUMENT for a text that is no
/// address; UNAVAILABLE if listening fails.
absl::StatusOr<ListeningSockets> ListenOn(const std::string& address);

}  // namespace attention
