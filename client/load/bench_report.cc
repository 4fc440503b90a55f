#include "client/load/bench_report.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/load/load_result.h"

namespace attention {
namespace {

/// The shares of the time above which the client may be the bottleneck: the time in which it used a
/// core, and in which it waited for one.
constexpr double kBusyClient = 0.9;
constexpr double kWaitingClient = 0.2;
/// The lateness above which a request counts as late; 1 % of the requests may be late.
constexpr int64_t kLateNs = 1'000'000;
/// The share of the due requests that may be missing before a server counts as overloaded.
constexpr double kMissingShare = 0.05;

bool IsOfErrors(const SloCheck& check) { return check.target.of == SloTarget::Of::kErrors; }

bool AllowsErrors(const BenchLevel& level) {
  return std::any_of(level.slo.begin(), level.slo.end(),
                     [](const SloCheck& check) { return IsOfErrors(check) && check.is_met; });
}

bool KeptUp(const BenchLevel& level) {
  const std::optional<KeepingUp> keeping_up = KeepingUpOf(level);
  return !keeping_up.has_value() || keeping_up->is_kept;
}

bool Agreed(const BenchLevel& level) {
  return !level.verification.has_value() || level.verification->agreed();
}

/// Whether nothing was wrong that no target judges.
bool IsSound(const BenchLevel& level) {
  const bool is_settled = !level.options.stability.has_value() ||
                          !level.options.stability->is_required ||
                          level.stability.is_stable.value_or(false);
  return !level.result.was_stopped && !MissesServers(level) && level.result.answers > 0 &&
         Agreed(level) && is_settled &&
         (level.result.failures.empty() || std::ranges::any_of(level.slo, IsOfErrors));
}

}  // namespace

double LevelValue(const LoadOptions& options) {
  return options.open_loop.has_value() ? options.open_loop->arrivals.rate_per_s
                                       : options.concurrency;
}

bool HasUnusedLanes(const LoadOptions& options) {
  // Those of a warm-up are not counted.
  return !options.open_loop.has_value() && options.warmup == absl::ZeroDuration() &&
         options.requests > 0 && options.requests < options.concurrency;
}

std::string LevelText(const LoadOptions& options) {
  const std::string level = absl::StrFormat("%.6g", LevelValue(options));
  if (!options.open_loop.has_value() || !options.open_loop->arrivals.ramp.has_value()) {
    return level;
  }
  return absl::StrFormat("%s to %.6g", level, options.open_loop->arrivals.ramp->to_rate_per_s);
}

int64_t NumServersNamed(const BenchLevel& level) {
  const std::string& list = level.options.connection.server;
  return 1 + std::count(list.begin(), list.end(), ',');
}

bool MissesServers(const BenchLevel& level) {
  const int64_t named = NumServersNamed(level);
  // Of sessions it is not known which server answered.
  return !level.result.servers.empty() && std::ssize(level.result.servers) < named &&
         level.result.answers >= named;
}

bool Succeeded(const BenchLevel& level) {
  return IsSound(level) && (level.result.failures.empty() || AllowsErrors(level));
}

std::optional<KeepingUp> KeepingUpOf(const BenchLevel& level) {
  const std::optional<PaceTally>& pace = level.result.pace;
  if (!pace.has_value() || level.options.open_loop->arrivals.trace != nullptr) {
    return std::nullopt;
  }
  const TimeSeries& series = level.result.series;
  const auto all = static_cast<int64_t>(std::ceil(absl::FDivDuration(pace->span, series.slice())));
  const int64_t end = std::min<int64_t>(all, std::ssize(series.slices()));
  TimeSlice half;
  for (int64_t i = all / 2; i < end; ++i) {
    half.Merge(series.slices()[i]);
  }
  const double seconds = absl::ToDoubleSeconds((all - all / 2) * series.slice());
  const auto missing = static_cast<double>(half.due - half.not_sent - half.errors - half.answers);
  const auto due = static_cast<double>(half.due);
  const bool falls_short = missing > kMissingShare * due && missing > 3.0 * std::sqrt(due);
  return KeepingUp{.due_per_s = Share(due, seconds),
                   .answers_per_s = Share(static_cast<double>(half.answers), seconds),
                   .is_kept = !falls_short || level.result.unfinished_ns.count() == 0};
}

bool MeetsTargets(const BenchLevel& level) {
  return Succeeded(level) && (level.slo.empty() || KeptUp(level)) &&
         std::all_of(level.slo.begin(), level.slo.end(),
                     [](const SloCheck& check) { return check.is_met; });
}

bool WasStopped(const BenchReport& report) {
  return std::any_of(report.levels.begin(), report.levels.end(),
                     [](const BenchLevel& level) { return level.result.was_stopped; });
}

BenchVerdict VerdictOf(const BenchReport& report) {
  const bool has_found = report.search.has_value() && report.search->highest_met.has_value();
  // A search ends with a level that misses, in whatever way.
  const bool is_sound = has_found
                            ? !WasStopped(report) && std::ranges::all_of(report.levels, Agreed)
                            : std::ranges::all_of(report.levels, IsSound);
  if (!is_sound) {
    return BenchVerdict::kFailed;
  }
  const bool is_met =
      report.search.has_value() ? has_found : std::ranges::all_of(report.levels, MeetsTargets);
  return is_met ? BenchVerdict::kPassed : BenchVerdict::kMissed;
}

bool Succeeded(const BenchReport& report) { return VerdictOf(report) == BenchVerdict::kPassed; }

std::string ClientWarning(const BenchLevel& level) {
  const LoadResult& result = level.result;
  std::vector<std::string> reasons;
  if (result.client_cpu_share > kBusyClient) {
    reasons.push_back("it was busy");
  }
  if (result.client_wait_share > kWaitingClient) {
    reasons.push_back(absl::StrFormat("it waited %.0f%% of the time for a core",
                                      100.0 * result.client_wait_share));
  }
  if (result.pace.has_value() && result.pace->lag_ns.Percentile(99.0) > kLateNs) {
    reasons.push_back(absl::StrFormat("one request of a hundred was sent more than %.1f ms late",
                                      Milliseconds(result.pace->lag_ns.Percentile(99.0))));
  }
  return reasons.empty() ? ""
                         : absl::StrCat("the client itself may be the limit: ",
                                        absl::StrJoin(reasons, ", and "));
}

}  // namespace attention
