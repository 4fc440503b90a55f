#include "client/load/bench_report.h"

#include <algorithm>

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

bool AllowsErrors(const BenchLevel& level) {
  return std::any_of(level.slo.begin(), level.slo.end(), [](const SloCheck& check) {
    return check.target.of == SloTarget::Of::kErrors && check.is_met;
  });
}

bool Agreed(const BenchLevel& level) {
  return !level.verification.has_value() || level.verification->agreed();
}

}  // namespace

double LevelValue(const LoadOptions& options) {
  return options.open_loop.has_value() ? options.open_loop->arrivals.rate_per_s
                                       : options.concurrency;
}

bool Succeeded(const BenchLevel& level) {
  const bool is_settled = !level.options.stability.has_value() ||
                          !level.options.stability->is_required ||
                          level.stability.is_stable.value_or(false);
  return level.result.answers > 0 && Agreed(level) && is_settled &&
         (level.result.failures.empty() || AllowsErrors(level));
}

bool MeetsTargets(const BenchLevel& level) {
  return Succeeded(level) && std::all_of(level.slo.begin(), level.slo.end(),
                                         [](const SloCheck& check) { return check.is_met; });
}

bool Succeeded(const BenchReport& report) {
  if (report.search.has_value()) {
    return report.search->highest_met.has_value() &&
           std::all_of(report.levels.begin(), report.levels.end(), Agreed);
  }
  return std::all_of(report.levels.begin(), report.levels.end(), MeetsTargets);
}

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
