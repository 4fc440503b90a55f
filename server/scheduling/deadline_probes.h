// Requests that are tried although they are not expected to meet their deadlines.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

#include "core/runtime/mutex.h"
#include "server/scheduling/time_point.h"

namespace attention {

/// An estimate that is too large would refuse every request of its kind for its deadline, so no
/// request of the kind would ever run and correct it. Each account may therefore have one such
/// request tried in each interval. A probe waits, counts in its account's share with its estimate,
/// and ends at its deadline, so a caller gains nothing from probes, and cannot use up those of
/// another account. Thread-safe.
class DeadlineProbes {
 public:
  static constexpr std::chrono::seconds kInterval{1};
  /// The maximum number of accounts that have had a probe within the interval. When there are this
  /// many, no other account gets one.
  static constexpr size_t kMaxAccounts = 1024;

  /// Returns whether a request of the account may be tried now.
  bool Take(const std::string& account, TimePoint now);

 private:
  Mutex mutex_;
  std::map<std::string, TimePoint> latest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
