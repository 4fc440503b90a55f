// The life of a server: models, executor, services, listeners, draining.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/server_options.h"

namespace attention {

struct ServerState;

/// Serves from Start until Shutdown or destruction (which is a Shutdown without grace). Shutdown is
/// called once, from any thread.
class Server {
 public:
  /// Starts a server. INVALID_ARGUMENT for an invalid model or address; ALREADY_EXISTS for two
  /// models of one name; UNAVAILABLE for an address that cannot be listened on; NOT_FOUND for a
  /// folder of models that does not exist. Invalid files inside that folder are no error of the
  /// server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  /// Returns the error that Start would return before it listens.
  static absl::Status Check(const ServerOptions& options);
  ~Server();

  /// Returns the addresses as given, with the chosen port in the place of port 0.
  const std::vector<std::string>& listening_addresses() const;
  /// Returns the addresses of the listeners for administrators, for health and for /metrics; empty
  /// when the listener does not exist.
  std::string admin_address() const;
  std::string health_address() const;
  std::string metrics_address() const;

  /// Waits until every model that was found at the start is loaded or has failed. Until then the
  /// server's health is NOT_SERVING, while loaded models already serve. Returns false after
  /// `patience`.
  bool WaitUntilReady(absl::Duration patience);

  /// Sets health to NOT_SERVING. For `ServerOptions::drain_delay`, or until no client is connected
  /// to --listen, serves the open connections and accepts no others there. Then refuses new
  /// requests with UNAVAILABLE, and returns when the running requests are answered, or after
  /// `grace`, when the remaining ones have been ended. Remaining connections stay open.
  void Drain(absl::Duration grace);

  /// Drains without the delay, then closes all connections. gRPC answers a call that arrives in
  /// between with CANCELLED; if the process ends after Drain instead, the call gets UNAVAILABLE.
  void Shutdown(absl::Duration grace);

 private:
  explicit Server(std::unique_ptr<ServerState> state);
  std::unique_ptr<ServerState> state_;
};

}  // namespace attention
