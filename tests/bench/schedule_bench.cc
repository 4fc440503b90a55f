#include "tests/bench/schedule_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "core/runtime/cpu_budget.h"
#include "tests/bench/cases.h"
#include "tests/bench/measure.h"
#include "tests/bench/simulated_pool.h"

namespace attention::bench {
namespace {

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The least number of runs of which the median is taken.
constexpr size_t kMinRuns = 7;

/// Calls `run` until `seconds` have passed, once before to warm up. Returns the median of what it
/// returns.
template <typename Run, typename Less>
auto MedianOf(double seconds, const Run& run, const Less& less) {
  run();
  std::vector<decltype(run())> results;
  const int64_t end = Now() + static_cast<int64_t>(seconds * 1e9);
  while (results.size() < kMinRuns || Now() < end) {
    results.push_back(run());
  }
  const auto middle = results.begin() + static_cast<int64_t>(results.size() / 2);
  std::nth_element(results.begin(), middle, results.end(), less);
  return *middle;
}

Schedule Simulate(const CaseSpec& spec, int threads, int64_t start_ns, double seconds) {
  SimulatedPool pool(threads, start_ns, Now);
  Workspace workspace(pool);
  const std::unique_ptr<Case> computation = MakeCase(spec);
  const auto run = [&] {
    pool.Begin();
    computation->Run(workspace);
    return pool.End();
  };
  return MedianOf(seconds, run,
                  [](const Schedule& a, const Schedule& b) { return a.total_ns() < b.total_ns(); });
}

int64_t MeasureThreads(const CaseSpec& spec, int threads, double seconds) {
  ThreadPool pool(threads);
  Workspace workspace(pool);
  const std::unique_ptr<Case> computation = MakeCase(spec);
  const auto run = [&] {
    const int64_t begin = Now();
    computation->Run(workspace);
    return Now() - begin;
  };
  return MedianOf(seconds, run, std::less<>());
}

/// Measures what a call of ParallelFor with one task for each of two threads takes longer than a
/// task.
int64_t MeasureStart() {
  constexpr int kCalls = 100;
  constexpr int64_t kTaskNs = 5000;
  ThreadPool pool(2);
  const auto run = [&] {
    const int64_t begin = Now();
    for (int i = 0; i < kCalls; ++i) {
      pool.ParallelFor(2, [](int64_t, int) {
        for (const int64_t end = Now() + kTaskNs; Now() < end;) {
        }
      });
    }
    return (Now() - begin) / kCalls - kTaskNs;
  };
  return MedianOf(0.05, run, std::less<>());
}

/// A plain read of the memory of a case, by one thread and by several.
struct SharedRead {
  SharedRead(const CaseSpec& spec, int count)
      : threads(count),
        repeats(spec.layers),
        bytes(BytesTouched(spec)),
        alone_ns(ReadNs(bytes, 1)),
        together_ns(count == 1 ? alone_ns : ReadNs(bytes, count)) {}

  /// What the threads wait longer for memory than if each had the bandwidth of one thread; below 0
  /// when it is less, since their caches hold more together.
  int64_t SharingNs() const {
    return static_cast<int64_t>(repeats * (together_ns - alone_ns / threads));
  }

  int threads;
  int repeats;
  double bytes;
  double alone_ns;
  double together_ns;
};

double Share(int64_t part_ns, double of_ns) { return 100 * static_cast<double>(part_ns) / of_ns; }

void Print(const char* name, int threads, const Schedule& one, const Schedule& s) {
  const double all_ns = static_cast<double>(s.total_ns()) * threads;
  std::printf("%-36s %4d %11.3f ms %5.1f %%  %5.1f %% %5.1f %% %5.1f %%  %5ld", name, threads,
              static_cast<double>(s.total_ns()) / 1e6, Share(one.total_ns(), all_ns),
              Share(s.serial_ns * (threads - 1), all_ns), Share(s.waiting_ns, all_ns),
              Share(s.start_ns * threads, all_ns), s.calls);
}

}  // namespace

void PrintSchedules(const std::regex& filter, const std::vector<int>& threads, double seconds) {
  const int64_t start_ns = CpuBudget() > 1 ? MeasureStart() : 0;
  std::printf(
      "A call of ParallelFor costs %.1f us beside its tasks (two threads). Lost are the shares of "
      "the threads' time:\nserial: one thread computes; waiting: no further task; start: the cost "
      "of the calls.\n%-36s threads  simulated   efficiency serial waiting  start  calls\n",
      static_cast<double>(start_ns) / 1e3, "case");
  for (const CaseSpec& spec : AllCases(1)) {
    if (!std::regex_search(spec.name, filter)) {
      continue;
    }
    const std::string name = spec.name.substr(0, spec.name.rfind("/threads"));
    const Schedule one = Simulate(spec, 1, start_ns, seconds);
    for (const int count : threads) {
      const Schedule schedule = count == 1 ? one : Simulate(spec, count, start_ns, seconds);
      Print(name.c_str(), count, one, schedule);
      if (count <= CpuBudget()) {
        const SharedRead read(spec, count);
        std::printf("   sharing memory %.3f ms, measured %.3f ms; %.1f MB at %.1f, %.1f GB/s",
                    static_cast<double>(schedule.total_ns() + read.SharingNs()) / 1e6,
                    static_cast<double>(MeasureThreads(spec, count, seconds)) / 1e6,
                    read.bytes / 1e6, read.bytes / read.alone_ns, read.bytes / read.together_ns);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

}  // namespace attention::bench
