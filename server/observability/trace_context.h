// W3C Trace Context: which trace a request is part of (https://www.w3.org/TR/trace-context/).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace attention {

/// A request's place in a trace. Ids are lower-case hexadecimal, of 32 and 16 digits.
struct TraceContext {
  std::string trace_id;
  /// The caller's span; empty: the trace begins here.
  std::string parent_id;
  /// The server's own span; empty: none is recorded.
  std::string span_id;
  /// Who began the trace wants it recorded.
  bool is_sampled = false;
  /// What tracing systems add for each other, as it came.
  std::string state = {};
};

/// The caller's trace; null for what is no valid `traceparent`, which the specification says to
/// take for none. Later versions of the header are read as far as the first one goes.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

/// `tracestate` as it may go on: nothing when it is longer than the 512 characters that everybody
/// must pass on, or has others than printable ones.
std::string ParseTracestate(std::string_view text);

/// Random ids, not all 0. Thread-safe.
std::string MakeTraceId();
std::string MakeSpanId();

}  // namespace attention
