// Requests as spans, in the JSON form of the OpenTelemetry protocol (OTLP 1.0,
// https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/observability/request_record.h"

namespace attention {

/// A finished request with its trace and span.
struct TracedRequest {
  RequestRecord record;
  /// Nanoseconds since the epoch.
  int64_t end_unix_ns = 0;
};

/// Returns an ExportTraceServiceRequest: for each request a server span, and below it a span for
/// each phase that the request reached: receive, queue, compute, send. `version` is the version of
/// the server.
std::string ToOtlpJson(const std::vector<TracedRequest>& requests, const std::string& version);

/// The spans that a collector rejected in a request that it otherwise accepted.
struct RejectedSpans {
  int64_t count = 0;
  std::string why = {};
};

/// Reads the partialSuccess of an ExportTraceServiceResponse. Returns zero if there is none, or if
/// the text is no such response.
RejectedSpans ReadRejectedSpans(const std::string& response);

}  // namespace attention
