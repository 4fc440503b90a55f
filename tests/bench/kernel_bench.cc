// attend-kernel-bench: how close attention and the attention layer come to the processor's matrix
// peak.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/kernels/gemm/gemm.h"
#include "core/kernels/onednn/isa.h"
#include "core/runtime/cpu_budget.h"
#include "tests/bench/cases.h"
#include "tests/bench/measure.h"
#include "tests/bench/model_bench.h"
#include "tests/bench/schedule_bench.h"

namespace attention::bench {
namespace {

struct Options {
  std::string filter = ".*";
  std::string json;
  double seconds = 1;
  bool memory = false;
  bool alone = false;
  bool first_calls = false;
  std::string model;
  int threads = 1;
  std::vector<int> schedule;
};

int64_t PeakResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * int64_t{1024};
}

nlohmann::json RunCase(const CaseSpec& spec, const Options& options) {
  ThreadPool pool(spec.threads);
  Workspace workspace(pool);
  const std::unique_ptr<Case> computation = MakeCase(spec);
  const Measurement m = Measure({.dtype = spec.dtype,
                                 .threads = spec.threads,
                                 .flop = Flop(spec),
                                 .bytes = BytesRead(spec),
                                 .seconds = options.seconds,
                                 .alone = options.alone},
                                [&] { computation->Run(workspace); });
  const double error = computation->Error();
  const bool right = error <= computation->Tolerance();
  std::printf("%-48s %9.3f ms ", spec.name.c_str(), m.median_ns / 1e6);
  if (m.gb_per_s > 0) {
    std::printf("%8.1f GB/s     %5.1f %% of %7.1f", m.gb_per_s, m.share * 100, m.read_gb_per_s);
  } else {
    std::printf("%8.1f GFLOP/s  %5.1f %% of %7.1f", m.gflops, m.share * 100, m.peak_gflops);
  }
  std::printf("  %s %.1e", right ? "right" : "WRONG", error);
  const double tokens_per_s = static_cast<double>(spec.batch_size) / m.median_ns * 1e9;
  if (spec.storage.has_value()) {
    std::printf("  %.0f tokens/s", tokens_per_s);
  }
  std::printf("\n");
  std::fflush(stdout);
  nlohmann::json result = {
      {"name", spec.name},  {"threads", spec.threads},      {"median_ns", m.median_ns},
      {"gflops", m.gflops}, {"peak_gflops", m.peak_gflops}, {"share", m.share},
      {"checked", right}};
  if (spec.storage.has_value()) {
    result["tokens_per_s"] = tokens_per_s;
  }
  if (m.gb_per_s > 0) {
    result["gb_per_s"] = m.gb_per_s;
    result["read_gb_per_s"] = m.read_gb_per_s;
  }
  return result;
}

/// Peak resident memory of a causal layer call, which must grow with the length and not with its
/// square.
void PrintMemory() {
  for (const int64_t seq_len : {4096, 8192, 16384}) {
    CaseSpec spec{.d_model = 768, .num_heads = 12, .num_kv_heads = 12, .head_dim = 64};
    spec.seq_len = seq_len;
    spec.causal = true;
    ThreadPool pool(1);
    Workspace workspace(pool);
    MakeCase(spec)->Run(workspace);
    std::printf("causal layer S%-6ld E768 H12: peak resident memory %6.1f MiB\n", seq_len,
                PeakResidentBytes() / 1048576.0);
  }
}

/// What the first call of a shape, which generates its kernels, costs over the second, in a
/// workspace that has grown before.
void PrintFirstCalls() {
  const auto milliseconds = [](const std::function<void()>& f) {
    const auto start = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  };
  ThreadPool pool(1);
  Workspace workspace(pool);
  CaseSpec widest{.num_heads = 8, .num_kv_heads = 8};
  widest.seq_len = 512;
  widest.head_dim = 512;
  MakeCase(widest)->Run(workspace);
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    for (const int64_t head_dim : {32, 64, 80, 96, 128, 256}) {
      for (const bool causal : {false, true}) {
        for (const int64_t seq_len : {197, 512}) {
          CaseSpec spec{.dtype = dtype, .num_heads = 8, .num_kv_heads = 8};
          spec.seq_len = seq_len;
          spec.head_dim = head_dim;
          spec.causal = causal;
          const std::unique_ptr<Case> computation = MakeCase(spec);
          const int64_t before = CountGemmKernels().generated;
          const double first = milliseconds([&] { computation->Run(workspace); });
          const double second = milliseconds([&] { computation->Run(workspace); });
          std::printf(
              "%s S%-4ld D%-4ld%-8s first call %7.3f ms, second %7.3f ms, over %6.3f ms, %2ld "
              "kernels\n",
              dtype == Dtype::kF32 ? "f32 " : "bf16", seq_len, head_dim, causal ? " causal" : "",
              first, second, first - second, CountGemmKernels().generated - before);
        }
      }
    }
  }
}

nlohmann::json RunCases(const Options& options) {
  const std::regex filter(options.filter);
  if (!options.model.empty()) {
    return BenchModel({.folder = options.model,
                       .filter = filter,
                       .threads = options.threads,
                       .seconds = options.seconds});
  }
  nlohmann::json results = nlohmann::json::array();
  for (const CaseSpec& spec : AllCases(CpuBudget() > 1 ? 2 : 1)) {
    if (std::regex_search(spec.name, filter)) {
      results.push_back(RunCase(spec, options));
    }
  }
  return results;
}

int Main(const Options& options) {
  std::printf("instruction set %s, thread budget %d\n", std::string(Name(CurrentIsa())).c_str(),
              CpuBudget());
  if (options.memory) {
    PrintMemory();
    return 0;
  }
  if (options.first_calls) {
    PrintFirstCalls();
    return 0;
  }
  if (!options.schedule.empty()) {
    PrintSchedules(std::regex(options.filter), options.schedule, options.seconds);
    return 0;
  }
  const nlohmann::json results = RunCases(options);
  if (!options.json.empty()) {
    std::ofstream(options.json) << results.dump(2) << "\n";
  }
  return std::all_of(results.begin(), results.end(),
                     [](const auto& result) { return result["checked"].template get<bool>(); })
             ? 0
             : 1;
}

}  // namespace
}  // namespace attention::bench

int main(int argc, char** argv) {
  attention::bench::Options options;
  CLI::App app(
      "Times attention and the attention layer beside the brgemm ukernel's peak (M64 N64 K512) in "
      "the same process, "
      "and checks each answer against the double-precision reference. Exit status 1 when one is "
      "wrong.");
  app.add_option("--filter", options.filter, "Regular expression of the cases to run");
  app.add_option("--json", options.json, "Write the results to this file");
  app.add_option("--seconds", options.seconds, "Time for each case")->check(CLI::PositiveNumber);
  app.add_flag(
      "--alone", options.alone,
      "Time the peak before each case, and the case call after call, as tests/bench/peers.py "
      "does; its data may then stay in the CPU cache");
  app.add_flag("--memory", options.memory,
               "Print the peak memory of long causal sequences instead");
  app.add_flag("--first-calls", options.first_calls,
               "Print what the first call of a shape costs over the second instead");
  app.add_option("--model", options.model,
                 "Time this checkpoint's loading and its whole stack instead: a folder with "
                 "config.json and weights, which takes token ids");
  app.add_option("--threads", options.threads, "Threads of --model")->check(CLI::PositiveNumber);
  app.add_option("--schedule", options.schedule,
                 "Simulate the cases on these numbers of threads instead, from the measured times "
                 "of their tasks")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  CLI11_PARSE(app, argc, argv);
  return attention::bench::Main(options);
}
