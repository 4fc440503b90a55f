#include "server/observability/process_metrics.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/kernels/gemm/gemm.h"
#include "core/kernels/onednn/isa.h"
#include "core/runtime/cpu_budget.h"
#include "core/runtime/mutex.h"
#include "core/runtime/numa.h"
#include "server/observability/process_usage.h"

namespace attention {
namespace {

void WriteKernels(MetricsText& text) {
  const GemmCounts kernels = CountGemmKernels();
  text.Gauge("attend_kernel_cache_entries", "Matrix product kernels in memory.", kernels.held);
  text.Counter("attend_kernels_generated_total", "Matrix product kernels that were generated.",
               kernels.generated);
  text.Counter("attend_kernels_evicted_total",
               "Matrix product kernels that were freed to make room for others.", kernels.evicted);
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

void WriteCpu(int compute_threads, MetricsText& text) {
  text.Gauge("attend_compute_threads", "Compute threads (--threads).", compute_threads);
  text.Gauge("attend_numa_nodes", "NUMA nodes to which compute threads are pinned; 1: not pinned.",
             CurrentNumaUse().nodes);
  text.Gauge("attend_cpu_budget_cores",
             "Cores that the process may use according to cgroup and affinity.", CpuLimit());
  const CpuThrottling throttling = HighestThrottling();
  text.Counter("attend_cgroup_throttled_seconds_total",
               "Seconds for which the cgroup's CPU quota kept threads from running.",
               Seconds(throttling.duration_ns));
  text.Counter("attend_cgroup_throttled_periods_total",
               "Periods in which the cgroup's CPU quota was used up.", throttling.periods);
}

template <typename Value>
void GaugeIfKnown(std::string_view name, std::string_view help, std::optional<Value> value,
                  MetricsText& text) {
  if (value.has_value()) {
    text.Gauge(name, help, *value);
  }
}

// Writes the metrics of the process under the names of Prometheus' client libraries.
void WriteUsage(MetricsText& text) {
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
  text.Gauge("process_max_fds", "Maximum number of open files and sockets.", usage.max_open_files);
}

}  // namespace

void WriteProcess(int compute_threads, MetricsText& text) {
  WriteKernels(text);
  WriteCpu(compute_threads, text);
  WriteUsage(text);
}

}  // namespace attention
