// Requests that are tried although they are not expected to meet their deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

#include "core/runtime/mutex.h"
#include "server/scheduling/time_point.h"

namespace attention {

/// An estimate that is too large would refuse every request of its kind for its deadline, so that
/// nothing of the kind would ever run and correct it. So each account may have one such request
/// tried in each interval. It waits, and counts in its account's share, as what it is estimated
/// to be, and ends at its deadline: nobody gains by asking for probes, or can use up another's.
/// Thread-safe.
class DeadlineProbes {
 public:
  static constexpr std::chrono::seconds kInterval{1};
  /// Accounts that had one within the interval; no more are let in.
  static constexpr size_t kMaxAccounts = 1024;

  /// Whether a request of the account may be tried now.
  bool Take(const std::string& account, TimePoint now);

 private:
  Mutex mutex_;
  std::map<std::string, TimePoint> latest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
