#include "tests/bench/schedule_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/runtime/cpu_budget.h"
#include "tests/bench/cases.h"
#include "tests/bench/measure.h"
#include "tests/bench/median.h"
#include "tests/bench/simulated_pool.h"

namespace attention::bench {
namespace {

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The least number of turns, and of calls in a turn. The first call of a turn finds cold caches
/// and sleeping threads, which the median leaves out.
constexpr int kMinTurns = 4;
constexpr int kMinCalls = 3;
constexpr int64_t kTurnNs = 5'000'000;

/// Calls `call` for one turn.
template <typename Call>
void TakeTurn(const Call& call) {
  const int64_t end = Now() + kTurnNs;
  for (int calls = 0; calls < kMinCalls || Now() < end; ++calls) {
    call();
  }
}

/// Calls `turn` until `seconds` have passed.
template <typename Turn>
void Repeat(double seconds, const Turn& turn) {
  const int64_t end = Now() + static_cast<int64_t>(seconds * 1e9);
  for (int turns = 0; turns < kMinTurns || Now() < end; ++turns) {
    turn();
  }
}

/// A case on simulated threads.
class Simulation {
 public:
  Simulation(const CaseSpec& spec, int threads, int64_t start_ns)
      : pool_(threads, start_ns, Now), computation_(MakeCase(spec)) {}

  void Run() {
    pool_.Begin();
    computation_->Run(workspace_);
    pool_.End();
  }
  Schedule schedule() const { return pool_.MedianSchedule(); }

 private:
  SimulatedPool pool_;
  Workspace workspace_{pool_};
  const std::unique_ptr<Case> computation_;
};

/// A case on threads of this machine.
class Measurement {
 public:
  Measurement(const CaseSpec& spec, int threads) : pool_(threads), computation_(MakeCase(spec)) {}

  int64_t Run() {
    const int64_t begin = Now();
    computation_->Run(workspace_);
    return Now() - begin;
  }

 private:
  ThreadPool pool_;
  Workspace workspace_{pool_};
  const std::unique_ptr<Case> computation_;
};

/// What one case gave on so many threads. One thread, all threads and the machine take turns, since
/// the clock of a shared machine drifts by more than they differ.
struct Comparison {
  Schedule one;
  Schedule all;
  int64_t measured_ns = 0;  // the median; 0: the machine has fewer threads
};

Comparison Compare(const CaseSpec& spec, int threads, int64_t start_ns, double seconds) {
  Simulation one(spec, 1, start_ns);
  Simulation all(spec, threads, start_ns);
  std::optional<Measurement> machine;
  if (threads <= CpuBudget()) {
    machine.emplace(spec, threads);
  }
  std::vector<int64_t> measured;
  Repeat(seconds, [&] {
    TakeTurn([&] { one.Run(); });
    TakeTurn([&] { all.Run(); });
    if (machine.has_value()) {
      TakeTurn([&] { measured.push_back(machine->Run()); });
    }
  });
  return {one.schedule(), all.schedule(), measured.empty() ? 0 : MedianOf(measured)};
}

/// Measures what a call of ParallelFor with one task for each of two threads takes longer than a
/// task.
int64_t MeasureStart() {
  constexpr int kCalls = 100;
  constexpr int64_t kTaskNs = 5000;
  ThreadPool pool(2);
  std::vector<int64_t> results;
  Repeat(0.05, [&] {
    const int64_t begin = Now();
    for (int i = 0; i < kCalls; ++i) {
      pool.ParallelFor(2, [](int64_t, int) {
        for (const int64_t end = Now() + kTaskNs; Now() < end;) {
        }
      });
    }
    results.push_back((Now() - begin) / kCalls - kTaskNs);
  });
  return MedianOf(results);
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

void Print(const char* name, int threads, const Comparison& found) {
  const Schedule& s = found.all;
  const double all_ns = static_cast<double>(s.total_ns()) * threads;
  std::printf("%-36s %4d %11.3f ms %5.1f %%  %5.1f %% %5.1f %% %5.1f %%  %5ld", name, threads,
              static_cast<double>(s.total_ns()) / 1e6, Share(found.one.total_ns(), all_ns),
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
    for (const int count : threads) {
      const Comparison found = Compare(spec, count, start_ns, seconds);
      Print(name.c_str(), count, found);
      if (found.measured_ns > 0) {
        const SharedRead read(spec, count);
        const auto shared_ns = static_cast<double>(found.all.total_ns() + read.SharingNs());
        const auto measured_ns = static_cast<double>(found.measured_ns);
        std::printf(
            "   sharing memory %.3f ms, x%.2f of measured %.3f ms; %.1f MB at %.1f, %.1f GB/s",
            shared_ns / 1e6, shared_ns / measured_ns, measured_ns / 1e6, read.bytes / 1e6,
            read.bytes / read.alone_ns, read.bytes / read.together_ns);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

}  // namespace attention::bench
