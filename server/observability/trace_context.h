// W3C Trace Context: the trace that a request belongs to (https://www.w3.org/TR/trace-context/).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace attention {

/// The position of a request in a trace. Ids are lower-case hexadecimal numbers of 32 and 16
/// digits.
struct TraceContext {
  std::string trace_id;
  /// The caller's span; empty: the trace begins here.
  std::string parent_id;
  /// The server's span; empty: none is recorded.
  std::string span_id;
  /// Whether the trace is to be recorded, as its starter decided.
  bool is_sampled = false;
  /// The `tracestate`, which is passed on unchanged.
  std::string state = {};
};

/// Parses a `traceparent`. Returns null for an invalid one, which counts as absent by the
/// specification. Later versions of the header are read as far as the first version defines them.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

/// Returns the `tracestate` to pass on: empty if it is longer than 512 characters, which every
/// system must pass on, or has characters that are not printable.
std::string ParseTracestate(std::string_view text);

/// Return random ids that are not all 0. Thread-safe.
std::string MakeTraceId();
std::string MakeSpanId();

}  // namespace attention
