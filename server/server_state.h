// What a server consists of, and how it comes up.
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

/// In the order in which they need each other: destruction goes the other way.
struct ServerState {
  explicit ServerState(const ServerOptions& given);

  /// Whatever can go wrong before anybody can see it.
  absl::Status Prepare();
  absl::Status AddSeededModels();
  void SetReady(bool is_ready);
  std::unique_ptr<ServiceSet> MakeServices(bool is_trusted);
  absl::Status Listen();
  /// The listener of a flag, not yet of its addresses.
  ListenerOptions ListenerOptionsOf(const std::string& flag);
  absl::Status ListenForHealth();
  absl::Status ListenForAdmins();
  /// The last of all: it reads everything.
  absl::Status ListenForMetrics();
  /// Those there are.
  std::vector<std::unique_ptr<Listener>*> Listeners();
  /// Of all listeners. REQUIRES: they serve.
  int64_t SumOf(int64_t (Listener::*count)() const);
  MetricsSources Sources();

  const ServerOptions options;
  ModelRepository models;
  HealthRegistry health;
  Gate admission;
  Gate live_calls;
  /// Somebody is inside until every model found at start is loaded or has failed.
  Gate loading;
  Executor executor;
  /// Null without a folder of models.
  const std::unique_ptr<ModelLoader> loader;
  /// Null: traces go nowhere.
  std::unique_ptr<SpanExporter> exporter;
  RequestObserver observer;
  SessionTable sessions;
  SharedMemory shared_memory;
  OpenStreams open_streams;
  ReceiveWatch receiving;
  Guards guards;
  /// Null until they listen, and where there is none.
  std::unique_ptr<ServiceSet> admin;
  std::unique_ptr<ServiceSet> everybody;
  HealthService health_service;
  std::unique_ptr<Listener> health_listener;
  /// Null: off. Reads all of the above.
  std::unique_ptr<HttpListener> metrics;
  bool is_shut_down = false;
};

}  // namespace attention
