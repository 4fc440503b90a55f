// One gRPC server with the addresses and services of a flag, and a completion queue of its own.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/scheduling/gate.h"
#include "server/security/access.h"
#include "server/server_options.h"
#include "server/services/calls/completion_threads.h"
#include "server/sockets/connection_acceptor.h"
#include "server/sockets/listening_socket.h"

namespace attention {

struct ListenerOptions {
  /// The flag that gave the addresses: "--listen".
  std::string flag;
  std::vector<std::string> addresses;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  int64_t max_message_bytes = 0;
  ConnectionLimits limits;
  /// Whether reflection is served. Reflection needs no token.
  bool has_reflection = false;
  /// Counts the calls that exist.
  Gate& live_calls;
  /// The rights of callers, and the pace of their connections.
  const Access& access;
};

class Listener {
 public:
  /// Listens on the addresses. Calls wait until they are requested from the queue. The services
  /// outlive the listener. UNAVAILABLE for an address that cannot be listened on; INTERNAL when
  /// gRPC does not start; the errors of ParseListenAddress.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(
      const ListenerOptions& options, const std::vector<grpc::Service*>& services);
  /// REQUIRES: no operation is started any more.
  ~Listener();

  /// Returns the addresses as given, with the chosen port in the place of port 0.
  const std::vector<std::string>& addresses() const { return addresses_; }
  grpc::ServerCompletionQueue* queue() { return threads_->queue(); }
  /// Starts to accept connections, and to deliver the calls that the queue is asked for. Called
  /// once.
  void StartThreads(int num_threads);
  /// Returns the number of open connections of clients, and of those that were refused because of
  /// the limit. Called after StartThreads.
  int64_t CountConnections() const { return acceptor_->CountOpen(); }
  int64_t refused_connections() const { return acceptor_->refused(); }
  /// The number of connections that had to wait because of their host's pace.
  int64_t delayed_connections() const { return acceptor_->delayed(); }
  /// Accepts no further connections: the system refuses them. Open ones are served as before.
  /// REQUIRES: StartThreads was called.
  void StopAccepting();
  /// Removes unix sockets from the file system, once: afterwards another server may have their
  /// paths. Leaves what others have put there already. Their connections stay open.
  void RemoveSockets();
  /// Waits until the clients' systems have all that was sent so far, at most until `end`.
  /// REQUIRES: StartThreads was called.
  void AwaitSent(TimePoint end) { acceptor_->AwaitSent(end); }
  /// Closes each connection when its calls have ended, at the latest after `flush_time`.
  void Close(absl::Duration flush_time);

 private:
  explicit Listener(const ListenerOptions& options)
      : live_calls_(options.live_calls),
        access_(options.access),
        max_connections_(options.limits.max_connections) {}

  Gate& live_calls_;
  const Access& access_;
  const int64_t max_connections_;
  grpc::AsyncGenericService unknown_methods_;
  std::vector<std::string> addresses_;
  std::unique_ptr<CompletionThreads> threads_;
  /// Moved to the acceptor when it starts.
  std::vector<FileDescriptor> sockets_;
  /// Owned by gRPC; it ends with the server.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConnectionAcceptor> acceptor_;
  /// Until they are removed.
  std::vector<SocketFile> socket_files_;
};

}  // namespace attention
