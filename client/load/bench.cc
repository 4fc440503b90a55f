#include "client/load/bench.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// Parts of a window whose variation is reported when there are no trials.
constexpr int kSettlingParts = 10;

/// The value of the first line of /proc/cpuinfo that starts with `key`; empty when there is none.
std::string CpuInfo(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with(key) && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "";
}

/// The instruction sets that decide the speed of attention.
std::vector<std::string> InstructionSets() {
  constexpr std::array kInteresting = {"avx2",     "fma",      "avx512f", "avx512_bf16",
                                       "avx_vnni", "amx_bf16", "amx_fp16"};
  std::vector<std::string> found;
  std::istringstream flags(CpuInfo("flags"));
  for (std::string flag; flags >> flag;) {
    if (std::find(kInteresting.begin(), kInteresting.end(), flag) != kInteresting.end()) {
      found.push_back(flag);
    }
  }
  return found;
}

/// The machine and the build: an object with "cpu", "cpus", "isa", "kernel", "version", "compiler"
/// and "build_type".
nlohmann::json DescribeMachine() {
  utsname kernel{};
  uname(&kernel);
  return {{"cpu", CpuInfo("model name")},
          {"cpus", std::thread::hardware_concurrency()},
          {"isa", InstructionSets()},
          {"kernel", std::string(kernel.sysname) + " " + kernel.release},
          {"version", ATTEND_VERSION},
          {"compiler", ATTEND_COMPILER},
          {"build_type", ATTEND_BUILD_TYPE}};
}

LoadOptions AtLevel(LoadOptions options, double level) {
  if (options.open_loop.has_value()) {
    options.open_loop->arrivals.rate_per_s = level;
  } else {
    options.concurrency = static_cast<int>(std::lround(level));
  }
  return options;
}

class Bench {
 public:
  Bench(BenchRunner& runner, const BenchPlan& plan, const BenchWatch& watch)
      : runner_(runner), plan_(plan), watch_(watch) {
    report_.subject = runner.Subject();
    report_.started = absl::Now();
    report_.machine = DescribeMachine();
    report_.slo = plan.slo;
  }

  absl::StatusOr<BenchReport> Run() {
    if (plan_.search.has_value()) {
      RETURN_IF_ERROR(Search(*plan_.search));
    } else if (plan_.levels.empty()) {
      RETURN_IF_ERROR(Try(LevelValue(plan_.options)).status());
    } else {
      RETURN_IF_ERROR(RunRange());
    }
    if (plan_.search.has_value() || (plan_.levels.size() > 1 && !plan_.slo.empty())) {
      report_.search = verdict_;
    }
    return std::move(report_);
  }

 private:
  absl::Status RunRange() {
    for (const double level : plan_.levels) {
      ASSIGN_OR_RETURN(const bool is_met, Try(level));
      if ((!is_met && !plan_.slo.empty()) || is_stopped_) {
        break;
      }
    }
    return absl::OkStatus();
  }

  /// Doubles the level, or goes to the highest of the plan, until a level misses its targets. Then
  /// halves the distance between the highest level that met them and the lowest that missed them.
  absl::Status Search(const SearchPlan& search) {
    RETURN_IF_ERROR(Try(search.lowest).status());
    while (!is_stopped_ && !verdict_.lowest_missed.has_value() &&
           verdict_.highest_met.has_value() &&
           *verdict_.highest_met < search.highest.value_or(SearchPlan::kMaxLevel)) {
      const double next =
          search.highest.value_or(std::min(SearchPlan::kMaxLevel, 2.0 * *verdict_.highest_met));
      RETURN_IF_ERROR(Try(next).status());
    }
    while (!is_stopped_ && verdict_.highest_met.has_value() && verdict_.lowest_missed.has_value() &&
           Distance() > Resolution(search)) {
      RETURN_IF_ERROR(Try(Middle()).status());
    }
    return absl::OkStatus();
  }

  double Distance() const { return *verdict_.lowest_missed - *verdict_.highest_met; }

  double Resolution(const SearchPlan& search) const {
    const double resolution = search.resolution.value_or(0.05 * *verdict_.highest_met);
    return plan_.options.open_loop.has_value() ? resolution : std::max(1.0, resolution);
  }

  double Middle() const {
    const double middle = (*verdict_.lowest_missed + *verdict_.highest_met) / 2.0;
    return plan_.options.open_loop.has_value() ? middle : std::floor(middle);
  }

  /// Measures one level. Returns whether it met its targets.
  absl::StatusOr<bool> Try(double value) {
    const LoadOptions options = AtLevel(plan_.options, value);
    if (watch_.on_level != nullptr) {
      watch_.on_level(options);
    }
    ASSIGN_OR_RETURN(BenchLevel level, runner_.Run(options, watch_.control));
    const StabilityRule rule = options.stability.value_or(StabilityRule());
    level.stability = JudgeStability(
        level.result.series,
        options.stability.has_value() ? options.duration : level.result.window / kSettlingParts,
        rule, options.stability.has_value() ? absl::InfiniteDuration() : level.result.window);
    if (!options.stability.has_value()) {
      level.stability.is_stable.reset();  // nobody asked
    }
    for (const SloTarget& target : plan_.slo) {
      level.slo.push_back(CheckSlo(target, level.result));
    }
    const bool is_met = MeetsTargets(level);
    is_stopped_ = level.result.was_stopped;
    if (!is_stopped_) {
      auto& bound = is_met ? verdict_.highest_met : verdict_.lowest_missed;
      bound = !bound.has_value() ? value
              : is_met           ? std::max(*bound, value)
                                 : std::min(*bound, value);
    }
    if (watch_.on_result != nullptr) {
      watch_.on_result(level);
    }
    report_.levels.push_back(std::move(level));
    return is_met;
  }

  BenchRunner& runner_;
  const BenchPlan& plan_;
  const BenchWatch& watch_;
  BenchReport report_;
  SearchVerdict verdict_;
  bool is_stopped_ = false;
};

}  // namespace

absl::StatusOr<BenchReport> RunBench(BenchRunner& runner, const BenchPlan& plan,
                                     const BenchWatch& watch) {
  return Bench(runner, plan, watch).Run();
}

}  // namespace attention
