#include "server/scheduling/deadline_probes.h"

namespace attention {

bool DeadlineProbes::Take(const std::string& account, TimePoint now) {
  MutexLock lock(mutex_);
  const auto found = latest_.find(account);
  if (found != latest_.end() && now - found->second < kInterval) {
    return false;
  }
  if (found == latest_.end() && latest_.size() >= kMaxAccounts) {
    std::erase_if(latest_, [now](const auto& entry) { return now - entry.second >= kInterval; });
    if (latest_.size() >= kMaxAccounts) {
      return false;
    }
  }
  latest_[account] = now;
  return true;
}

}  // namespace attention
