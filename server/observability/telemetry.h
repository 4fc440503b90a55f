// Metrics and traces of the server, as the options configure them.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/observability/http_listener.h"
#include "server/observability/metrics.h"
#include "server/observability/span_exporter.h"

namespace attention {

/// Starts the export of traces. Returns null when the endpoint is empty. Errors are those of
/// ReadHeaderFile and of the exporter, and name the flag.
absl::StatusOr<std::unique_ptr<SpanExporter>> StartTraces(const SpanExporterOptions& options);

/// Serves /metrics of the sources, which outlive the listener. Returns null without an address.
/// Returns HttpListener's errors, which name the flag.
absl::StatusOr<std::unique_ptr<HttpListener>> ServeMetrics(const std::string& address,
                                                           const MetricsSources& sources);

}  // namespace attention
