// Accepts connections up to a limit, and passes them on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "core/runtime/mutex.h"
#include "server/sockets/connection_pace.h"
#include "server/sockets/listening_socket.h"
#include "server/sockets/peer_host.h"

namespace attention {

/// Accepts connections on a thread of its own. A connection that arrives while `max_connections`
/// are open is closed at once. A connection that the pace does not allow yet waits, or is closed if
/// too many wait. Thread-safe.
class ConnectionAcceptor {
 public:
  /// The thread calls this with a connection that does not block, and which the callee owns.
  using Take = std::function<void(int listener, FileDescriptor connection)>;

  /// Takes fewer connections where the limit of open files needs it (ConnectionsWithin). The pace
  /// outlives this. Throws std::system_error if the system has no file left.
  ConnectionAcceptor(std::vector<FileDescriptor> listeners, int64_t max_connections,
                     ConnectionPace& pace, Take take);
  /// Calls Stop.
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  /// Stops accepting and closes the listeners, so that the system refuses further connections.
  /// Connections that were passed on stay open, and are still counted; those that wait are closed.
  /// REQUIRES: one thread calls this at a time.
  void Stop();

  /// Waits until the other ends' systems have all that the open connections have sent so far, or
  /// until `end`. Returns whether they have it. What a connection sends meanwhile is not awaited.
  bool AwaitSent(std::chrono::steady_clock::time_point end);

  /// Returns the number of connections that were passed on or wait, and are still open.
  int64_t CountOpen();
  /// Returns the number of connections that were closed at once because of the limit, since the
  /// start.
  int64_t refused() const;
  /// Returns the number of connections that were closed because too many waited: those of all
  /// acceptors of this process.
  static int64_t turned_away();
  /// Returns the number of connections that were ended because of the calls that they made: those
  /// of all acceptors of this process.
  static int64_t ended();
  /// Returns the number of connections that had to wait, since the start.
  int64_t delayed() const;

 private:
  struct Connection {
    int file = -1;
    uint64_t inode = 0;  // identifies the socket: another file may have got its number meanwhile

    bool is_open() const;
  };

  /// A connection that waits.
  struct Waiting {
    int listener = -1;
    FileDescriptor connection;
    Peer from;
  };

  /// A warning that is not repeated for a while.
  class Warning {
   public:
    /// Returns whether to log it now.
    bool IsDue();

   private:
    static constexpr std::chrono::seconds kTimeBetweenWarnings{10};
    std::chrono::steady_clock::time_point last_;
  };

  void Run();
  /// Ends the connection of a grpc::ServerContext::peer(), if it is open.
  void End(const std::string& peer);
  /// Accepts one connection. Returns false if the system cannot open files.
  bool Accept(const FileDescriptor& listener);
  bool HasRoom();
  /// Passes the connection on, or lets it wait.
  void PassOrHold(Waiting accepted);
  /// Counts and logs a connection that is closed because too many wait.
  void TurnAway(const std::string& host, int64_t waiting_of_host);
  /// Passes on the waiting connections that may be taken now, those of a host in the order of
  /// arrival. Closes those whose client has left when their turn comes, and at times all such.
  void PassWaiting();

  /// The thread alone uses the listeners, until it ends.
  std::vector<FileDescriptor> listeners_;
  const int64_t max_connections_;
  ConnectionPace& pace_;
  const Take take_;
  /// Used by the thread only, in the order of arrival.
  std::list<Waiting> waiting_;
  std::chrono::steady_clock::time_point last_look_;  // at all of them; used by the thread only
  Warning turn_warning_;                             // used by the thread only
  Warning failure_warning_;                          // used by the thread only
  const FileDescriptor wake_;
  mutable Mutex mutex_;
  /// All open connections, and some that have been closed meanwhile.
  std::vector<Connection> connections_ ABSL_GUARDED_BY(mutex_);
  int64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t delayed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point last_sweep_ ABSL_GUARDED_BY(mutex_);
  Warning refusal_warning_ ABSL_GUARDED_BY(mutex_);
  Warning end_warning_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace attention
