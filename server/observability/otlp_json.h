// Requests as spans, in the JSON form of the OpenTelemetry protocol (OTLP 1.0,
// https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/observability/request_record.h"

namespace attention {

/// A request that has ended, with its trace and span.
struct TracedRequest {
  RequestRecord record;
  /// Nanoseconds since the epoch.
  int64_t end_unix_ns = 0;
};

/// An ExportTraceServiceRequest: for each request a server span, and below it one for each phase it
/// came to: receive, queue, compute, send. `version` is the server program's.
std::string ToOtlpJson(const std::vector<TracedRequest>& requests, const std::string& version);

/// What a collector says of spans in a request that it has taken otherwise.
struct RejectedSpans {
  int64_t count = 0;
  std::string why = {};
};

/// The partialSuccess of an ExportTraceServiceResponse; nothing where there is none, or no such
/// response.
RejectedSpans ReadRejectedSpans(const std::string& response);

}  // namespace attention
