// All values of /metrics, read from their counters on each request.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/models/model_repository.h"
#include "server/health.h"
#include "server/models/model_loader.h"
#include "server/observability/requests.h"
#include "server/scheduling/executor.h"
#include "server/sessions/session_table.h"

namespace attention {

/// The sources of the values; all outlive the metrics.
struct MetricsSources {
  const RequestObserver& observer;
  const Executor& executor;
  const SessionTable& sessions;
  const ModelRepository& models;
  /// Null: there is no folder of models.
  const ModelLoader* loader = nullptr;
  const HealthRegistry& health;
  /// Null: traces are not exported.
  const SpanExporter* exporter = nullptr;
  QueueLimits queue_limits;
  /// The versions of the server and of gRPC.
  std::string version;
  std::string grpc_version;
  /// Returns the number of open connections of clients.
  std::function<int64_t()> connections;
  /// Returns the number of connections that were closed at once because of the limit.
  std::function<int64_t()> refused_connections;
  /// Returns the number of connections that had to wait because of their host's pace.
  std::function<int64_t()> delayed_connections;
  /// Returns the number of calls of methods that do not exist.
  std::function<int64_t()> unknown_calls;
  /// Returns the time at which the certificate for new connections expires, in seconds since the
  /// epoch; null without a certificate.
  std::function<std::optional<double>()> certificate_expiry;
  /// Returns the flags that name files of credentials, each with whether its files are valid now.
  std::function<std::vector<std::pair<std::string, bool>>()> credential_files;
};

/// Returns the current values in Prometheus' text format. Thread-safe.
std::string WriteMetrics(const MetricsSources& sources);

}  // namespace attention
