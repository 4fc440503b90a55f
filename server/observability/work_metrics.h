// The metrics of what the server does: requests, queue, batches, sessions, prefixes.
#pragma once

#include "server/observability/metrics.h"
#include "server/observability/metrics_text.h"

namespace attention {

/// Adds the families. Thread-safe.
void WriteWork(const MetricsSources& sources, MetricsText& text);

}  // namespace attention
