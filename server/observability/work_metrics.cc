#include "server/observability/work_metrics.h"

#include <map>
#include <string>

namespace attention {
namespace {

using AllSeries = std::map<RequestCounter::Key, RequestSeries>;

MetricLabels LabelsOf(const RequestCounter::Key& key) {
  const auto& [rpc, model, code] = key;
  return {{"model", model}, {"rpc", std::string(rpc)}, {"code", absl::StatusCodeToString(code)}};
}

// A histogram of every series.
struct Phase {
  const char* name;
  const char* help;
  const BucketCounts& (*of)(const RequestSeries& series);
};

constexpr Phase kPhases[] = {
    {"attend_request_seconds",
     "Seconds from the arrival of a request until the transport has taken its whole answer, by "
     "model, rpc and status code.",
     [](const RequestSeries& s) -> const BucketCounts& { return s.counts.latency; }},
    {"attend_queue_seconds", "Seconds from the receipt of a whole request until a batch takes it.",
     [](const RequestSeries& s) -> const BucketCounts& { return s.queue; }},
    {"attend_compute_seconds",
     "Seconds from when a batch takes a request until its last row is computed.",
     [](const RequestSeries& s) -> const BucketCounts& { return s.compute; }},
    {"attend_first_block_seconds",
     "Seconds from the arrival of a streamed request until the first row block of its answer is "
     "being sent.",
     [](const RequestSeries& s) -> const BucketCounts& { return s.first_block; }},
    {"attend_send_seconds",
     "Seconds from when an answer is computed until the transport has taken all of it, for "
     "answered requests only.",
     [](const RequestSeries& s) -> const BucketCounts& { return s.send; }},
};

void WriteRequests(const RequestObserver& observer, MetricsText& text) {
  const AllSeries all = observer.counter().series();
  text.Family("attend_requests_total", "counter",
              "Requests and steps of sessions that have ended.");
  for (const auto& [key, series] : all) {
    const RequestCounts& counts = series.counts;
    text.Sample(LabelsOf(key), counts.succeeded + counts.refused + counts.failed);
  }
  for (const Phase& phase : kPhases) {
    text.Family(phase.name, "histogram", phase.help);
    for (const auto& [key, series] : all) {
      text.Sample(LabelsOf(key), phase.of(series), kNanosecondsPerSecond);
    }
  }
  text.Family("attend_refused_total", "counter",
              "Refused requests that another server, or this server later, might answer, by "
              "reason.");
  const auto refused = observer.counter().refused();
  for (int i = 0; i < kNumRefusalReasons; ++i) {
    text.Sample({{"reason", std::string(Name(static_cast<RefusalReason>(i)))}}, refused[i]);
  }
  text.Counter("attend_received_bytes_total", "Bytes of the messages of requests that have ended.",
               observer.counter().total().received_bytes);
  text.Counter("attend_sent_bytes_total", "Bytes of the messages of answers.",
               observer.sent_bytes());
}

void WriteQueue(const ExecutorStatistics& executor, const QueueLimits& limits, MetricsText& text) {
  const QueueState& queue = executor.queue;
  text.Gauge("attend_queued_requests", "Requests that wait for a batch.", queue.requests);
  text.Gauge("attend_queued_bytes", "Bytes of the requests that wait for a batch.", queue.bytes);
  text.Gauge("attend_queued_work_seconds",
             "Estimated time to compute all waiting requests. Scale by this metric.",
             Seconds(queue.work_ns));
  text.Gauge("attend_queue_limit_requests",
             "Maximum number of waiting requests (--max-queue-requests).", limits.max_requests);
  text.Gauge("attend_queue_limit_bytes", "Maximum bytes of waiting requests (--max-queue-bytes).",
             limits.max_bytes);
  text.Gauge("attend_queue_limit_seconds",
             "Maximum estimated time to compute all waiting requests (--max-queue-wait).",
             Seconds(limits.max_wait_ns));
  text.Gauge("attend_reply_bytes",
             "Memory of the replies that the server has yet to compute or send.",
             executor.reply_bytes);
  text.Gauge("attend_reply_limit_bytes", "Maximum memory of replies (--max-reply-bytes).",
             executor.max_reply_bytes);
  text.Gauge("attend_running_requests", "Requests in the running batches.",
             executor.running_requests);
}

void WriteBatches(const ExecutorStatistics& executor, MetricsText& text) {
  text.Family("attend_batch_tokens", "histogram", "Query rows of a batch.");
  text.Sample({}, executor.rows, 1);
  text.Family("attend_batch_requests", "histogram", "Requests of a batch.");
  text.Sample({}, executor.requests, 1);
  text.Counter("attend_padding_tokens_total",
               "Padding rows that were computed; always 0, because batches are packed.", 0);
  text.Counter("attend_interleaved_batches_total",
               "Batches of short requests that ran between the slices of a longer batch.",
               executor.interleaved_batches);
  text.Counter("attend_busy_seconds_total", "Seconds for which the compute threads ran batches.",
               Seconds(executor.busy_ns));
  text.Counter("attend_copied_bytes_total", "Bytes that were copied from requests into batches.",
               executor.copied_bytes);
}

void WriteSessions(const SessionStatistics& sessions, MetricsText& text) {
  text.Gauge("attend_sessions", "Sessions of Decode, including sessions that wait to be resumed.",
             sessions.sessions);
  text.Gauge("attend_parked_sessions", "Sessions that wait to be resumed.", sessions.parked);
  text.Family(
      "attend_parked_sessions_ended_total", "counter",
      "Sessions that no longer wait to be resumed, by reason: they were resumed, their time "
      "was over (expired), or they ended early to make room (evicted).");
  text.Sample({{"reason", "resumed"}}, sessions.resumed);
  text.Sample({{"reason", "expired"}}, sessions.expired);
  text.Sample({{"reason", "evicted"}}, sessions.evicted);
  text.Gauge("attend_session_cache_bytes",
             "Memory of the keys and values of all sessions and prefixes.", sessions.cache_bytes);
  text.Gauge(
      "attend_session_cache_limit_bytes",
      "Maximum memory of the keys and values of all sessions and prefixes (--max-cache-bytes).",
      sessions.max_cache_bytes);
}

void WritePrefixes(const PrefixStatistics& prefixes, MetricsText& text) {
  text.Counter("attend_prefix_cache_hits_total",
               "Sequences whose first tokens the prefix cache had (--prefix-cache-bytes).",
               prefixes.hits);
  text.Counter("attend_prefix_cache_misses_total",
               "Sequences that could use the prefix cache and found no tokens in it (misses).",
               prefixes.misses);
  text.Counter("attend_prefix_cache_tokens_total",
               "Tokens that were not computed, since the prefix cache had them.",
               prefixes.cached_tokens);
  text.Counter("attend_prefix_cache_taken_bytes_total",
               "Memory of the keys and values of those tokens.", prefixes.cached_bytes);
  text.Counter("attend_prefix_cache_evictions_total",
               "Parts of sequences that left the prefix cache to make room.", prefixes.evictions);
  text.Gauge("attend_prefix_cache_bytes", "Memory of the tokens in the prefix cache.",
             prefixes.bytes);
  text.Gauge("attend_prefix_cache_limit_bytes",
             "Maximum memory of the tokens in the prefix cache (--prefix-cache-bytes).",
             prefixes.max_bytes);
}

}  // namespace

void WriteWork(const MetricsSources& sources, MetricsText& text) {
  WriteRequests(sources.observer, text);
  const ExecutorStatistics executor = sources.executor.statistics();
  WriteQueue(executor, sources.queue_limits, text);
  WriteBatches(executor, text);
  WriteSessions(sources.sessions.statistics(), text);
  WritePrefixes(sources.sessions.prefixes().statistics(), text);
}

}  // namespace attention
