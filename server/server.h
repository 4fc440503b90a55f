// The server's life: models, executor, services, listening, draining.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/server_options.h"

namespace attention {

struct ServerState;

/// Serves from Start until Shutdown or destruction (a Shutdown without grace). Shutdown is called
/// once, from any thread.
class Server {
 public:
  /// INVALID_ARGUMENT for a model or an address that cannot be; ALREADY_EXISTS for two models of
  /// one name; UNAVAILABLE for an address that cannot be listened on; NOT_FOUND for a folder of
  /// models that is not there. What is wrong inside that folder is no error of the server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  /// Start's error, short of listening.
  static absl::Status Check(const ServerOptions& options);
  ~Server();

  /// As given, with the port that was chosen for a port 0.
  const std::vector<std::string>& listening_addresses() const;
  /// Of the listeners for administrators, for health and for /metrics; empty where there is none.
  std::string admin_address() const;
  std::string health_address() const;
  std::string metrics_address() const;
  /// When the certificate in use expires; the infinite future without one.
  absl::Time CertificateExpiry() const;

  /// Waits until every model that was found at start is loaded or has failed; until then health
  /// says NOT_SERVING of the server as a whole, while what is loaded serves. False after
  /// `patience`.
  bool WaitUntilReady(absl::Duration patience);

  /// From now on health says NOT_SERVING and new requests are refused with UNAVAILABLE. Returns
  /// when the requests under way are answered, or after `grace`, when those that are left have been
  /// given up. Connections stay open, and go on being refused.
  void Drain(absl::Duration grace);

  /// Drains, then closes all connections. gRPC answers a call that arrives in the instant between
  /// with CANCELLED; a process that ends after Drain instead makes it UNAVAILABLE.
  void Shutdown(absl::Duration grace);

 private:
  explicit Server(std::unique_ptr<ServerState> state);
  std::unique_ptr<ServerState> state_;
};

}  // namespace attention
