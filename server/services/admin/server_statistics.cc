#include "server/services/admin/server_statistics.h"

#include <chrono>

#include "core/runtime/cpu_budget.h"
#include "server/observability/process_usage.h"

namespace attention {
namespace {

void Describe(const BucketCounts& histogram, v1::LatencyHistogram& wire) {
  wire.mutable_bounds_ns()->Assign(histogram.bounds().begin(), histogram.bounds().end());
  wire.mutable_counts()->Assign(histogram.counts().begin(), histogram.counts().end());
}

// Writes the counts of all requests, or of a model's.
template <typename Statistics>
void DescribeRequests(const RequestCounts& counts, Statistics& wire) {
  wire.set_succeeded(counts.succeeded);
  wire.set_refused(counts.refused);
  wire.set_failed(counts.failed);
  wire.set_receive_ns(counts.receive_ns);
  wire.set_queue_ns(counts.queue_ns);
  wire.set_compute_ns(counts.compute_ns);
  wire.set_send_ns(counts.send_ns);
  wire.set_cached_tokens(counts.cached_tokens);
  Describe(counts.latency, *wire.mutable_latency());
}

void DescribeExecutor(const ExecutorStatistics& executor, v1::ServerStatistics& wire) {
  wire.set_batches(executor.batches);
  wire.set_batch_requests(executor.batch_requests);
  wire.set_batch_tokens(executor.batch_tokens);
  wire.set_busy_ns(executor.busy_ns);
  wire.set_interleaved_batches(executor.interleaved_batches);
  wire.set_waiting_requests(executor.queue.requests);
  wire.set_waiting_bytes(executor.queue.bytes);
  wire.set_waiting_ns(executor.queue.work_ns);
  wire.set_running_requests(executor.running_requests);
}

void DescribeProcess(v1::ServerStatistics& wire) {
  const ProcessUsage usage = ReadProcessUsage();
  wire.set_version(ATTEND_VERSION);
  wire.set_cpu_ns(usage.cpu_ns);
  wire.set_resident_bytes(usage.resident_bytes.value_or(0));
  wire.set_throttled_ns(CgroupThrottling("/").duration_ns);
}

}  // namespace

v1::ServerStatistics DescribeStatistics(const StatisticsSources& sources, const Caller& caller) {
  v1::ServerStatistics wire;
  wire.set_uptime_ns(Nanoseconds(std::chrono::steady_clock::now() - sources.start));
  wire.set_threads(sources.executor.num_threads());
  const RequestCounts total = sources.observer.counter().total();
  DescribeRequests(total, wire);
  wire.set_received_bytes(total.received_bytes);
  wire.set_sent_bytes(sources.observer.sent_bytes());
  for (const auto& [key, counts] : sources.observer.counter().by_model()) {
    if (!caller.MayUse(key.first.empty() ? kWithoutModel : key.first)) {
      continue;
    }
    v1::ModelStatistics& model = *wire.add_models();
    model.set_model(key.first);
    model.set_version(key.second);
    DescribeRequests(counts, model);
    model.set_tokens(counts.tokens);
  }
  DescribeExecutor(sources.executor.statistics(), wire);
  const SessionStatistics sessions = sources.sessions.statistics();
  wire.set_sessions(sessions.sessions);
  wire.set_parked_sessions(sessions.parked);
  wire.set_cache_bytes(sessions.cache_bytes);
  wire.set_max_cache_bytes(sessions.max_cache_bytes);
  DescribeProcess(wire);
  return wire;
}

}  // namespace attention
