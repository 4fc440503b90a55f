#include "server/observability/metrics.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "core/kernels/onednn/gemm.h"
#include "core/kernels/onednn/isa.h"
#include "core/kernels/onednn/version.h"
#include "core/runtime/cpu_budget.h"
#include "server/observability/log.h"
#include "server/observability/metrics_text.h"
#include "server/observability/process_usage.h"

namespace attention {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;

double Seconds(int64_t ns) { return static_cast<double>(ns) / kNanosecondsPerSecond; }

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
     "From the arrival of a request until the transport had taken all of its answer, by model, rpc "
     "and status code.",
     [](const RequestSeries& s) -> const BucketCounts& { return s.counts.latency; }},
    {"attend_queue_seconds", "From when all of a request was there until a batch took it.",
     [](const RequestSeries& s) -> const BucketCounts& { return s.queue; }},
    {"attend_compute_seconds", "From when a batch took a request until its last row was computed.",
     [](const RequestSeries& s) -> const BucketCounts& { return s.compute; }},
    {"attend_first_block_seconds",
     "From the arrival of a request for a stream until the first block of its answer was on its "
     "way.",
     [](const RequestSeries& s) -> const BucketCounts& { return s.first_block; }},
    {"attend_send_seconds",
     "From when an answer was computed until the transport had taken all of it, of requests that "
     "were answered.",
     [](const RequestSeries& s) -> const BucketCounts& { return s.send; }},
};

void WriteRequests(const RequestObserver& observer, MetricsText& text) {
  const AllSeries all = observer.counter().series();
  text.Family("attend_requests_total", "counter",
              "Requests, and steps of sessions, that have ended.");
  for (const auto& [key, series] : all) {
    const RequestCounts& counts = series.counts;
    text.Sample(LabelsOf(key),
                static_cast<double>(counts.succeeded + counts.refused + counts.failed));
  }
  for (const Phase& phase : kPhases) {
    text.Family(phase.name, "histogram", phase.help);
    for (const auto& [key, series] : all) {
      text.Sample(LabelsOf(key), phase.of(series), kNanosecondsPerSecond);
    }
  }
  text.Family("attend_refused_total", "counter",
              "Requests refused that might be answered at another time or by another server, by "
              "reason.");
  const auto refused = observer.counter().refused();
  for (int i = 0; i < kNumRefusalReasons; ++i) {
    text.Sample({{"reason", std::string(Name(static_cast<RefusalReason>(i)))}},
                static_cast<double>(refused[i]));
  }
  text.Counter("attend_received_bytes_total", "Bytes of the messages of requests that have ended.",
               static_cast<double>(observer.counter().total().received_bytes));
  text.Counter("attend_sent_bytes_total", "Bytes of the messages of answers.",
               static_cast<double>(observer.sent_bytes()));
}

void WriteQueue(const ExecutorStatistics& executor, const QueueLimits& limits, MetricsText& text) {
  const QueueState& queue = executor.queue;
  text.Gauge("attend_queued_requests", "Requests that wait for a batch.",
             static_cast<double>(queue.requests));
  text.Gauge("attend_queued_bytes", "Bytes of the requests that wait.",
             static_cast<double>(queue.bytes));
  text.Gauge("attend_queued_work_seconds",
             "Estimated time that what waits takes to compute: what to scale by.",
             Seconds(queue.work_ns));
  text.Gauge("attend_queue_limit_requests", "Requests that may wait (--max-queue-requests).",
             static_cast<double>(limits.max_requests));
  text.Gauge("attend_queue_limit_bytes", "Bytes of requests that may wait (--max-queue-bytes).",
             static_cast<double>(limits.max_bytes));
  text.Gauge("attend_queue_limit_seconds",
             "Estimated time that what waits may take (--max-queue-wait).",
             Seconds(limits.max_wait_ns));
  text.Gauge("attend_reply_bytes", "Memory of replies that are to be computed or sent.",
             static_cast<double>(executor.reply_bytes));
  text.Gauge("attend_reply_limit_bytes", "Memory that replies may take (--max-reply-bytes).",
             static_cast<double>(executor.max_reply_bytes));
  text.Gauge("attend_running_requests", "Requests in the batches that run.",
             static_cast<double>(executor.running_requests));
}

void WriteBatches(const ExecutorStatistics& executor, MetricsText& text) {
  text.Family("attend_batch_tokens", "histogram", "Query rows that were computed together.");
  text.Sample({}, executor.rows, 1);
  text.Family("attend_batch_requests", "histogram", "Requests that were computed together.");
  text.Sample({}, executor.requests, 1);
  text.Counter("attend_padding_tokens_total",
               "Query rows that were computed and no request asked for: 0, as nothing is padded.",
               static_cast<double>(executor.padding_tokens));
  text.Counter("attend_interleaved_batches_total",
               "Batches of short requests that ran between the parts of a longer one.",
               static_cast<double>(executor.interleaved_batches));
  text.Counter("attend_busy_seconds_total", "Time for which batches ran on the compute threads.",
               Seconds(executor.busy_ns));
  text.Counter("attend_copied_bytes_total", "Bytes of requests that were copied into batches.",
               static_cast<double>(executor.copied_bytes));
}

void WriteSessions(const SessionStatistics& sessions, MetricsText& text) {
  text.Gauge("attend_sessions", "Sessions of Decode, those that wait to be resumed included.",
             static_cast<double>(sessions.sessions));
  text.Gauge("attend_parked_sessions", "Sessions that wait to be resumed.",
             static_cast<double>(sessions.parked));
  text.Gauge("attend_session_cache_bytes", "Memory of the keys and values of all sessions.",
             static_cast<double>(sessions.cache_bytes));
  text.Gauge("attend_session_cache_limit_bytes",
             "Memory that keys and values of sessions may take (--max-cache-bytes).",
             static_cast<double>(sessions.max_cache_bytes));
}

void WriteModels(const MetricsSources& sources, MetricsText& text) {
  const std::vector<std::shared_ptr<const Model>> models = sources.models.List();
  text.Gauge("attend_models_loaded", "Versions of models that are served.",
             static_cast<double>(models.size()));
  int64_t failed = 0;
  if (sources.loader != nullptr) {
    const std::vector<ModelState> states = sources.loader->States();
    failed = std::count_if(states.begin(), states.end(), [](const ModelState& state) {
      return state.phase == ModelPhase::kFailed;
    });
  }
  text.Gauge("attend_models_failed", "Versions of models whose last attempt to load failed.",
             static_cast<double>(failed));
  text.Family("attend_model_info", "gauge", "1 for each version of a model that is served.");
  for (const std::shared_ptr<const Model>& model : models) {
    const ModelInfo& info = model->info();
    text.Sample({{"model", info.name},
                 {"version", std::to_string(info.version)},
                 {"type", info.model_type},
                 {"weights_dtype", std::string(Name(info.weights_dtype))}},
                1);
  }
  text.Family("attend_model_memory_bytes", "gauge", "Memory that a version of a model takes.");
  for (const std::shared_ptr<const Model>& model : models) {
    const ModelInfo& info = model->info();
    text.Sample({{"model", info.name}, {"version", std::to_string(info.version)}},
                static_cast<double>(info.weights_bytes));
  }
}

void WriteServer(const MetricsSources& sources, MetricsText& text) {
  text.Gauge("attend_ready", "1 when health says SERVING of the server as a whole.",
             sources.health.IsServing("").value_or(false) ? 1 : 0);
  text.Gauge("attend_all_models_served",
             "1 when every model found at the start has served, as health says of model/*.",
             sources.health.IsServing(kAllModels).value_or(false) ? 1 : 0);
  text.Gauge("attend_draining", "1 when the server refuses what is new and ends what is under way.",
             sources.health.is_draining() ? 1 : 0);
  if (sources.connections) {
    text.Gauge("attend_connections", "Open connections of clients.",
               static_cast<double>(sources.connections()));
  }
  if (sources.refused_connections) {
    text.Counter("attend_connections_refused_total",
                 "Connections that were closed at once, as many as may be were open.",
                 static_cast<double>(sources.refused_connections()));
  }
  text.Counter("attend_log_lines_left_out_total",
               "Lines of the log that were left out, as nobody read standard error in time.",
               static_cast<double>(LogLinesLeftOut()));
  if (sources.certificate_expiry) {
    if (const std::optional<double> expiry = sources.certificate_expiry()) {
      text.Gauge("attend_certificate_expiry_timestamp_seconds",
                 "When the certificate that new connections are shown expires, in seconds since "
                 "the epoch.",
                 *expiry);
    }
  }
  const GemmCounts kernels = CountGemmKernels();
  text.Gauge("attend_kernel_cache_entries", "Matrix product kernels that are held.",
             static_cast<double>(kernels.held));
  text.Counter("attend_kernels_generated_total", "Matrix product kernels that were generated.",
               static_cast<double>(kernels.generated));
  text.Counter("attend_kernels_evicted_total",
               "Matrix product kernels that were freed because others were needed.",
               static_cast<double>(kernels.evicted));
  const Abilities& abilities = CurrentAbilities();
  text.Family("attend_processor_info", "gauge",
              "1, with the instruction set that is used and how bf16 and 8-bit integers are "
              "multiplied: by a matrix unit, by vectors, or emulated as 32-bit floats.");
  text.Sample({{"instruction_set", std::string(Name(abilities.isa))},
               {"bf16", std::string(Name(abilities.bf16))},
               {"int8", std::string(Name(abilities.int8))}},
              1);
  text.Family("attend_build_info", "gauge", "1, with what the server was built from.");
  text.Sample({{"version", sources.version},
               {"compiler", __VERSION__},
               {"onednn", OneDnnVersion()},
               {"grpc", sources.grpc_version}},
              1);
}

void WriteTraces(const TraceStatistics& traces, MetricsText& text) {
  text.Counter("attend_traced_requests_total", "Requests whose spans a collector has taken.",
               static_cast<double>(traces.exported));
  text.Counter(
      "attend_untraced_requests_total",
      "Requests whose spans were dropped: too many waited, or the collector (--otlp-endpoint)"
      " did not take them.",
      static_cast<double>(traces.dropped));
}

void WriteCpu(const Executor& executor, MetricsText& text) {
  text.Gauge("attend_compute_threads", "Threads that compute (--threads).", executor.num_threads());
  text.Gauge("attend_cpu_budget_cores", "Cores that the process may use: cgroup and affinity.",
             CpuBudget());
  const CpuThrottling throttling = CgroupThrottling("/");
  text.Counter("attend_cgroup_throttled_seconds_total",
               "Time for which the cgroup's CPU quota kept threads from running.",
               Seconds(throttling.duration_ns));
  text.Counter("attend_cgroup_throttled_periods_total",
               "Periods in which the cgroup's CPU quota was used up.",
               static_cast<double>(throttling.periods));
}

// Under the names that Prometheus' own client libraries use.
void WriteProcess(MetricsText& text) {
  const ProcessUsage usage = ReadProcessUsage();
  text.Counter("process_cpu_seconds_total", "Time of the process's threads on cores.",
               Seconds(usage.cpu_ns));
  text.Gauge("process_resident_memory_bytes", "Memory that the process has.",
             static_cast<double>(usage.resident_bytes));
  text.Gauge("process_virtual_memory_bytes", "Address space that the process has.",
             static_cast<double>(usage.virtual_bytes));
  text.Gauge("process_start_time_seconds", "When the process began, in seconds since the epoch.",
             usage.start_time_seconds);
  text.Gauge("process_open_fds", "Files and sockets that are open.",
             static_cast<double>(usage.open_files));
  text.Gauge("process_max_fds", "Files and sockets that may be open.",
             static_cast<double>(usage.max_open_files));
}

}  // namespace

std::string WriteMetrics(const MetricsSources& sources) {
  MetricsText text;
  WriteRequests(sources.observer, text);
  const ExecutorStatistics executor = sources.executor.statistics();
  WriteQueue(executor, sources.queue_limits, text);
  WriteBatches(executor, text);
  WriteSessions(sources.sessions.statistics(), text);
  WriteModels(sources, text);
  WriteServer(sources, text);
  WriteTraces(sources.exporter == nullptr ? TraceStatistics() : sources.exporter->statistics(),
              text);
  WriteCpu(sources.executor, text);
  WriteProcess(text);
  return text.text();
}

}  // namespace attention
