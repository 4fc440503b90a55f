#include "server/scheduling/wait_spare.h"

#include <algorithm>

namespace attention {
namespace {

constexpr double kGrowth = 0.02;
constexpr double kShrinking = kGrowth / 20;

}  // namespace

void WaitSpare::CountEnd(const std::string& account, bool is_late, TimePoint now) {
  const auto is_over = [now](const auto& entry) { return now - entry.second.counted > kMemory; };
  auto found = accounts_.find(account);
  if (found == accounts_.end()) {
    if (!is_late) {
      return;
    }
    if (accounts_.size() >= kMaxAccounts && std::erase_if(accounts_, is_over) == 0) {
      return;
    }
    found = accounts_.try_emplace(account).first;
  } else if (is_over(*found)) {
    found->second.share = 0;
  }
  Account& known = found->second;
  known.counted = now;
  known.share = std::clamp(known.share + (is_late ? kGrowth : -kShrinking), 0.0, 1.0);
  if (known.share == 0) {
    accounts_.erase(found);
  }
}

double WaitSpare::ShareOf(const std::string& account, TimePoint now) const {
  const auto found = accounts_.find(account);
  return found == accounts_.end() || now - found->second.counted > kMemory ? 0
                                                                           : found->second.share;
}

}  // namespace attention
