// Addresses with services behind them: one gRPC server, with a completion queue of its own.
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
#include "server/server_options.h"
#include "server/services/calls/completion_threads.h"
#include "server/sockets/connection_acceptor.h"

namespace attention {

struct ListenerOptions {
  /// What the addresses were given by: "--listen".
  std::string flag;
  std::vector<std::string> addresses;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  int64_t max_message_bytes = 0;
  ConnectionLimits limits;
  /// Whether reflection is served, which asks nobody for a token.
  bool has_reflection = false;
  /// Every call is inside.
  Gate& live_calls;
};

class Listener {
 public:
  /// Listens; calls wait until somebody asks the queue for them. The services outlive it.
  /// UNAVAILABLE for an address that cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(
      const ListenerOptions& options, const std::vector<grpc::Service*>& services);
  /// REQUIRES: no operation is started any more.
  ~Listener();

  /// As given, with the port that was chosen for a port 0.
  const std::vector<std::string>& addresses() const { return addresses_; }
  grpc::ServerCompletionQueue* queue() { return threads_->queue(); }
  /// Begins to accept, and to deliver what the queue was asked for. Called once.
  void StartThreads(int num_threads);
  /// Open ones of clients, and how many were refused as there were too many. After StartThreads.
  int64_t CountConnections() const { return acceptor_->CountOpen(); }
  int64_t refused_connections() const { return acceptor_->refused(); }
  /// Takes unix sockets out of the file system; their connections stay.
  void RemoveSockets() const;
  /// Closes connections when their calls have ended, or at the latest after `flush_time`.
  void Close(absl::Duration flush_time);

 private:
  explicit Listener(const ListenerOptions& options)
      : live_calls_(options.live_calls), max_connections_(options.limits.max_connections) {}

  Gate& live_calls_;
  const int64_t max_connections_;
  grpc::AsyncGenericService unknown_methods_;
  std::vector<std::string> addresses_;
  std::unique_ptr<CompletionThreads> threads_;
  /// The acceptor's, once there is one.
  std::vector<FileDescriptor> sockets_;
  /// Of gRPC; ends with the server.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConnectionAcceptor> acceptor_;
};

}  // namespace attention
