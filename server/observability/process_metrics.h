// The metrics of the process and of its processor: kernels, threads, throttling, memory, files.
#pragma once

#include "server/observability/metrics_text.h"

namespace attention {

/// Adds the families. `compute_threads` is the number of them. Thread-safe.
void WriteProcess(int compute_threads, MetricsText& text);

}  // namespace attention
