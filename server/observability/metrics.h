// Everything that /metrics says. Values are read where they are counted anyway, when somebody asks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/models/model_repository.h"
#include "server/models/model_loader.h"
#include "server/observability/health.h"
#include "server/observability/requests.h"
#include "server/scheduling/executor.h"
#include "server/sessions/session_table.h"

namespace attention {

/// What is asked; all outlive the metrics.
struct MetricsSources {
  const RequestObserver& observer;
  const Executor& executor;
  const SessionTable& sessions;
  const ModelRepository& models;
  /// Null: no folder of models is served.
  const ModelLoader* loader = nullptr;
  const HealthRegistry& health;
  /// Null: traces go nowhere.
  const SpanExporter* exporter = nullptr;
  QueueLimits queue_limits = {};
  /// Of the server program, and of gRPC.
  std::string version = {};
  std::string grpc_version = {};
  /// Open connections of clients.
  std::function<int64_t()> connections = {};
  /// Those that were closed at once, as there were too many.
  std::function<int64_t()> refused_connections = {};
  /// When the certificate that new connections are shown expires, in seconds since the epoch; null:
  /// there is none, or it cannot be read.
  std::function<std::optional<double>()> certificate_expiry = {};
};

/// Of now, in Prometheus' text format. Thread-safe.
std::string WriteMetrics(const MetricsSources& sources);

}  // namespace attention
