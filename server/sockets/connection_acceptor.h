// Accepts connections up to a limit, and passes them on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "core/runtime/mutex.h"
#include "server/sockets/listening_socket.h"

namespace attention {

/// Accepts connections on a thread of its own. A connection that arrives while `max_connections`
/// are open is closed at once. Thread-safe.
class ConnectionAcceptor {
 public:
  /// The thread calls this with a connection that does not block. The callee closes it later.
  using Take = std::function<void(int listener, int connection)>;

  ConnectionAcceptor(std::vector<FileDescriptor> listeners, int64_t max_connections, Take take);
  /// Calls Stop.
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  /// Stops accepting and closes the listeners, so that the system refuses further connections.
  /// Connections that were passed on stay open, and are still counted. Not concurrently with
  /// itself.
  void Stop();

  /// Returns the number of connections that were passed on and are still open.
  int64_t CountOpen();
  /// Returns the number of connections that were closed at once, since the start.
  int64_t refused() const;

 private:
  struct Connection {
    int file = -1;
    uint64_t inode = 0;  // of the socket, since another file may have got its number meanwhile

    bool is_open() const;
  };

  void Run();
  /// Accepts one connection. Returns false if the system cannot open files.
  bool Accept(const FileDescriptor& listener);
  bool HasRoom();

  /// The thread alone uses the listeners, until it ends.
  std::vector<FileDescriptor> listeners_;
  const int64_t max_connections_;
  const Take take_;
  const FileDescriptor wake_;
  mutable Mutex mutex_;
  /// All open connections, and some that have been closed meanwhile.
  std::vector<Connection> connections_ ABSL_GUARDED_BY(mutex_);
  int64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point last_sweep_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point last_warning_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace attention
