// The parts of a server, and how they start.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/listener.h"
#include "server/observability/telemetry.h"
#include "server/scheduling/executor.h"
#include "server/security/guards.h"
#include "server/server_options.h"
#include "server/service_set.h"

namespace attention {

/// The parts in the order in which they depend on each other. They are destroyed in reverse order.
struct ServerState {
  explicit ServerState(const ServerOptions& given);

  /// Creates the parts that need no listener. Errors in options and files appear here.
  absl::Status Prepare();
  absl::Status AddSeededModels();
  void StartStallWatch();
  void SetReady(bool is_ready);
  std::unique_ptr<ServiceSet> MakeServices(bool is_trusted);
  absl::Status Listen();
  /// Returns the options of the listener of a flag, without its addresses.
  ListenerOptions ListenerOptionsOf(const std::string& flag, const Access& access);
  absl::Status ListenForHealth();
  absl::Status ListenForAdmins();
  /// Starts the listener of /metrics after all others, since it reads all parts.
  absl::Status ListenForMetrics();
  /// Returns the listeners that exist.
  std::vector<std::unique_ptr<Listener>*> Listeners();
  /// Returns the sum over all listeners. REQUIRES: they serve.
  int64_t SumOf(int64_t (Listener::*count)() const);
  MetricsSources Sources();

  const ServerOptions options;
  ModelRepository models;
  HealthRegistry health;
  Gate admission;
  Gate live_calls;
  /// Entered until every model that was found at the start is loaded or has failed.
  Gate loading;
  Executor executor;
  /// Null without a folder of models.
  const std::unique_ptr<ModelLoader> loader;
  /// Null: traces are not exported.
  std::unique_ptr<SpanExporter> exporter;
  RequestObserver observer;
  SessionTable sessions;
  SharedMemory shared_memory;
  OpenStreams open_streams;
  ReceiveWatch receiving;
  IdleWatch idle;
  const ServerParts parts;
  Guards guards;
  /// Null until the listener is started, and if it does not exist.
  std::unique_ptr<ServiceSet> admin;
  std::unique_ptr<ServiceSet> all_callers;
  /// The access to the health listener.
  const Access health_access;
  CallEnvironment health_calls;
  HealthService health_service;
  /// Null: disabled.
  std::unique_ptr<StallWatch> stall_watch;
  std::unique_ptr<Listener> health_listener;
  /// Null: disabled. It reads all members above.
  std::unique_ptr<HttpListener> metrics;
  bool is_shut_down = false;
};

}  // namespace attention
