// What leaves the server about itself: /metrics for whoever asks, traces to a collector.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/observability/http_listener.h"
#include "server/observability/metrics.h"
#include "server/observability/span_exporter.h"

namespace attention {

/// Null when the endpoint is empty: traces go nowhere. INVALID_ARGUMENT names the flag.
absl::StatusOr<std::unique_ptr<SpanExporter>> StartTraces(const SpanExporterOptions& options);

/// Serves /metrics of the sources, which outlive it; null without an address. HttpListener's
/// errors, which name the flag.
absl::StatusOr<std::unique_ptr<HttpListener>> ServeMetrics(const std::string& address,
                                                           const MetricsSources& sources);

}  // namespace attention
