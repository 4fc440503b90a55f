#include "server/observability/metrics.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/kernels/gemm/gemm.h"
#include "core/kernels/onednn/isa.h"
#include "core/kernels/onednn/version.h"
#include "core/runtime/cpu_budget.h"
#include "core/runtime/mutex.h"
#include "core/runtime/numa.h"
#include "server/log/log.h"
#include "server/observability/metrics_text.h"
#include "server/observability/process_usage.h"
#include "server/sockets/connection_acceptor.h"

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
              "Refused requests that another server, or this server later, might answer, by "
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
  text.Gauge("attend_queued_bytes", "Bytes of the requests that wait for a batch.",
             static_cast<double>(queue.bytes));
  text.Gauge("attend_queued_work_seconds",
             "Estimated time to compute all waiting requests. Scale by this metric.",
             Seconds(queue.work_ns));
  text.Gauge("attend_queue_limit_requests",
             "Maximum number of waiting requests (--max-queue-requests).",
             static_cast<double>(limits.max_requests));
  text.Gauge("attend_queue_limit_bytes", "Maximum bytes of waiting requests (--max-queue-bytes).",
             static_cast<double>(limits.max_bytes));
  text.Gauge("attend_queue_limit_seconds",
             "Maximum estimated time to compute all waiting requests (--max-queue-wait).",
             Seconds(limits.max_wait_ns));
  text.Gauge("attend_reply_bytes",
             "Memory of the replies that the server has yet to compute or send.",
             static_cast<double>(executor.reply_bytes));
  text.Gauge("attend_reply_limit_bytes", "Maximum memory of replies (--max-reply-bytes).",
             static_cast<double>(executor.max_reply_bytes));
  text.Gauge("attend_running_requests", "Requests in the running batches.",
             static_cast<double>(executor.running_requests));
}

void WriteBatches(const ExecutorStatistics& executor, MetricsText& text) {
  text.Family("attend_batch_tokens", "histogram", "Query rows of a batch.");
  text.Sample({}, executor.rows, 1);
  text.Family("attend_batch_requests", "histogram", "Requests of a batch.");
  text.Sample({}, executor.requests, 1);
  text.Counter("attend_padding_tokens_total",
               "Padding rows that were computed; always 0, because batches are packed.",
               static_cast<double>(executor.padding_tokens));
  text.Counter("attend_interleaved_batches_total",
               "Batches of short requests that ran between the slices of a longer batch.",
               static_cast<double>(executor.interleaved_batches));
  text.Counter("attend_busy_seconds_total", "Seconds for which the compute threads ran batches.",
               Seconds(executor.busy_ns));
  text.Counter("attend_copied_bytes_total", "Bytes that were copied from requests into batches.",
               static_cast<double>(executor.copied_bytes));
}

void WriteSessions(const SessionStatistics& sessions, MetricsText& text) {
  text.Gauge("attend_sessions", "Sessions of Decode, including sessions that wait to be resumed.",
             static_cast<double>(sessions.sessions));
  text.Gauge("attend_parked_sessions", "Sessions that wait to be resumed.",
             static_cast<double>(sessions.parked));
  text.Gauge("attend_session_cache_bytes",
             "Memory of the keys and values of all sessions and prefixes.",
             static_cast<double>(sessions.cache_bytes));
  text.Gauge("attend_session_cache_limit_bytes",
             "Maximum memory of the keys and values of all sessions (--max-cache-bytes).",
             static_cast<double>(sessions.max_cache_bytes));
}

void WritePrefixes(const PrefixStatistics& prefixes, MetricsText& text) {
  text.Counter("attend_prefix_cache_hits_total",
               "Sequences whose first tokens the prefix cache had (--prefix-cache-bytes).",
               static_cast<double>(prefixes.hits));
  text.Counter("attend_prefix_cache_misses_total",
               "Sequences that could use the prefix cache and found no tokens in it (misses).",
               static_cast<double>(prefixes.misses));
  text.Counter("attend_prefix_cache_tokens_total",
               "Tokens that were not computed, since the prefix cache had them.",
               static_cast<double>(prefixes.cached_tokens));
  text.Counter("attend_prefix_cache_taken_bytes_total",
               "Memory of the keys and values of those tokens.",
               static_cast<double>(prefixes.cached_bytes));
  text.Counter("attend_prefix_cache_evictions_total",
               "Parts of sequences that left the prefix cache to make room.",
               static_cast<double>(prefixes.evictions));
  text.Gauge("attend_prefix_cache_bytes", "Memory of the tokens in the prefix cache.",
             static_cast<double>(prefixes.bytes));
  text.Gauge("attend_prefix_cache_limit_bytes",
             "Maximum memory of the tokens in the prefix cache (--prefix-cache-bytes).",
             static_cast<double>(prefixes.max_bytes));
}

void WriteModels(const MetricsSources& sources, MetricsText& text) {
  const std::vector<std::shared_ptr<const Model>> models = sources.models.List();
  text.Gauge("attend_models_loaded", "Served versions of models.",
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
  text.Family("attend_model_info", "gauge", "1 for each served version of a model.");
  for (const std::shared_ptr<const Model>& model : models) {
    const ModelInfo& info = model->info();
    text.Sample({{"model", info.name},
                 {"version", std::to_string(info.version)},
                 {"type", info.model_type},
                 {"weights_dtype", std::string(Name(info.weights_dtype))}},
                1);
  }
  text.Family("attend_model_memory_bytes", "gauge",
              "Memory of the weights of a version of a model.");
  for (const std::shared_ptr<const Model>& model : models) {
    const ModelInfo& info = model->info();
    text.Sample({{"model", info.name}, {"version", std::to_string(info.version)}},
                static_cast<double>(info.weights_bytes));
  }
}

void WriteCredentialFiles(const std::vector<std::pair<std::string, bool>>& files,
                          MetricsText& text) {
  if (files.empty()) {
    return;
  }
  text.Family("attend_credential_files_valid", "gauge",
              "Whether the files that a flag names can be used as they are now; if not, what was "
              "read before stays in use, and a restart would fail.");
  for (const auto& [flag, is_valid] : files) {
    text.Sample({{"flag", flag}}, is_valid ? 1 : 0);
  }
}

void WriteConnections(const MetricsSources& sources, MetricsText& text) {
  text.Gauge("attend_connections", "Open connections of clients.",
             static_cast<double>(sources.connections()));
  text.Counter(
      "attend_connections_refused_total",
      "Connections that were closed at once because the limit was reached (--max-connections).",
      static_cast<double>(sources.refused_connections()));
  text.Counter("attend_connections_turned_away_total",
               "Connections that were closed at once because too many of their host, or of all "
               "hosts, had to wait already (attend_connections_delayed_total says why).",
               static_cast<double>(ConnectionAcceptor::turned_away()));
  text.Counter("attend_connections_ended_total",
               "Connections that were ended because they made more than 16 times as many calls "
               "without work in a second as a host may make.",
               static_cast<double>(ConnectionAcceptor::ended()));
  text.Counter("attend_connections_delayed_total",
               "Connections that waited because their host made many calls without work, or had "
               "other connections without a call.",
               static_cast<double>(sources.delayed_connections()));
  text.Counter("attend_unknown_calls_total", "Calls of methods that the listener does not have.",
               static_cast<double>(sources.unknown_calls()));
}

void WriteKernels(MetricsText& text) {
  const GemmCounts kernels = CountGemmKernels();
  text.Gauge("attend_kernel_cache_entries", "Matrix product kernels in memory.",
             static_cast<double>(kernels.held));
  text.Counter("attend_kernels_generated_total", "Matrix product kernels that were generated.",
               static_cast<double>(kernels.generated));
  text.Counter("attend_kernels_evicted_total",
               "Matrix product kernels that were freed to make room for others.",
               static_cast<double>(kernels.evicted));
  const Abilities& abilities = CurrentAbilities();
  text.Family("attend_processor_info", "gauge",
              "1, with the instruction set in use, the width of its vectors and how the processor "
              "multiplies bf16 and 8-bit "
              "integers: by a matrix unit, by vectors, or emulated with 32-bit floats.");
  text.Sample({{"instruction_set", std::string(Name(abilities.isa))},
               {"vector_bits", absl::StrCat(abilities.vector_bits)},
               {"bf16", std::string(Name(abilities.bf16))},
               {"int8", std::string(Name(abilities.int8))}},
              1);
}

void WriteServer(const MetricsSources& sources, MetricsText& text) {
  text.Gauge("attend_ready", "1 when health reports SERVING for the whole server.",
             sources.health.IsServing("").value_or(false) ? 1 : 0);
  text.Gauge("attend_all_models_served",
             "1 when every required model has served, as health reports for model/*.",
             sources.health.IsServing(kAllModels).value_or(false) ? 1 : 0);
  text.Gauge("attend_draining", "1 from SIGTERM until the server ends.",
             sources.health.is_draining() ? 1 : 0);
  text.Gauge("attend_compute_stalled",
             "1 when requests wait and nothing was computed for --stall-timeout.",
             sources.health.is_stalled() ? 1 : 0);
  text.Counter("attend_log_lines_left_out_total",
               "Log lines that were dropped because standard error was not read in time, or could "
               "not be written.",
               static_cast<double>(LogLinesLeftOut()));
  if (const std::optional<double> expiry = sources.certificate_expiry()) {
    text.Gauge("attend_certificate_expiry_timestamp_seconds",
               "Time at which the certificate for new connections expires, in seconds since the "
               "epoch.",
               *expiry);
  }
  WriteCredentialFiles(sources.credential_files(), text);
  text.Family("attend_build_info", "gauge",
              "1, with the versions of the server, its compiler and its libraries.");
  text.Sample({{"version", sources.version},
               {"compiler", __VERSION__},
               {"onednn", OneDnnVersion()},
               {"grpc", sources.grpc_version}},
              1);
}

void WriteTraces(const TraceStatistics& traces, MetricsText& text) {
  text.Counter("attend_traced_requests_total", "Requests whose spans a collector has accepted.",
               static_cast<double>(traces.exported));
  text.Counter(
      "attend_untraced_requests_total",
      "Requests whose spans were dropped because too many waited, or because the collector "
      "(--otlp-endpoint) did not accept them.",
      static_cast<double>(traces.dropped));
}

// At the limit of open files the system's counters cannot be read. One that fell to 0 meanwhile
// would look like the growth of all its time afterwards.
CpuThrottling HighestThrottling() {
  static Mutex mutex;
  static CpuThrottling highest;
  const CpuThrottling now = CgroupThrottling("/");
  MutexLock lock(mutex);
  highest.periods = std::max(highest.periods, now.periods);
  highest.duration_ns = std::max(highest.duration_ns, now.duration_ns);
  return highest;
}

void WriteCpu(const Executor& executor, MetricsText& text) {
  text.Gauge("attend_compute_threads", "Compute threads (--threads).", executor.num_threads());
  text.Gauge("attend_numa_nodes", "NUMA nodes to which compute threads are pinned; 1: not pinned.",
             CurrentNumaUse().nodes);
  text.Gauge("attend_cpu_budget_cores",
             "Cores that the process may use according to cgroup and affinity.", CpuBudget());
  const CpuThrottling throttling = HighestThrottling();
  text.Counter("attend_cgroup_throttled_seconds_total",
               "Seconds for which the cgroup's CPU quota kept threads from running.",
               Seconds(throttling.duration_ns));
  text.Counter("attend_cgroup_throttled_periods_total",
               "Periods in which the cgroup's CPU quota was used up.",
               static_cast<double>(throttling.periods));
}

template <typename Value>
void GaugeIfKnown(std::string_view name, std::string_view help, std::optional<Value> value,
                  MetricsText& text) {
  if (value.has_value()) {
    text.Gauge(name, help, static_cast<double>(*value));
  }
}

// Writes the metrics of the process under the names of Prometheus' client libraries.
void WriteProcess(MetricsText& text) {
  const ProcessUsage usage = ReadProcessUsage();
  text.Counter("process_cpu_seconds_total", "CPU seconds of the process.", Seconds(usage.cpu_ns));
  GaugeIfKnown("process_resident_memory_bytes", "Resident memory of the process.",
               usage.resident_bytes, text);
  GaugeIfKnown("process_virtual_memory_bytes", "Address space of the process.", usage.virtual_bytes,
               text);
  GaugeIfKnown("process_start_time_seconds",
               "Start time of the process, in seconds since the epoch.", usage.start_time_seconds,
               text);
  GaugeIfKnown("process_open_fds", "Open files and sockets.", usage.open_files, text);
  text.Gauge("process_max_fds", "Maximum number of open files and sockets.",
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
  WritePrefixes(sources.sessions.prefixes().statistics(), text);
  WriteModels(sources, text);
  WriteServer(sources, text);
  WriteConnections(sources, text);
  WriteKernels(text);
  WriteTraces(sources.exporter == nullptr ? TraceStatistics() : sources.exporter->statistics(),
              text);
  WriteCpu(sources.executor, text);
  WriteProcess(text);
  return text.text();
}

}  // namespace attention
