// Accepts connections for somebody else, and not too many.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "core/runtime/mutex.h"
#include "server/sockets/listening_socket.h"

namespace attention {

/// One thread accepts; what comes when `max_connections` are open is closed at once. Thread-safe.
class ConnectionAcceptor {
 public:
  /// Called by that thread with a connection that does not block; closes it some time.
  using Take = std::function<void(int listener, int connection)>;

  ConnectionAcceptor(std::vector<FileDescriptor> listeners, int64_t max_connections, Take take);
  /// Accepts no more; those that were taken stay.
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  /// Taken and not closed yet.
  int64_t CountOpen();
  /// Since the start.
  int64_t refused() const;

 private:
  struct Connection {
    int file = -1;
    uint64_t inode = 0;  // of the socket: the number of its file may be another's meanwhile

    bool is_open() const;
  };

  void Run();
  /// One; false when the system has no files.
  bool Accept(int listener);
  bool HasRoom();

  const std::vector<FileDescriptor> listeners_;
  const int64_t max_connections_;
  const Take take_;
  const FileDescriptor wake_;
  mutable Mutex mutex_;
  /// All that are open, and some that are no more.
  std::vector<Connection> connections_ ABSL_GUARDED_BY(mutex_);
  int64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point swept_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point told_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace attention
