#include "server/scheduling/account_shares.h"

namespace attention {

bool AccountShares::Allows(int64_t own, int64_t more, int64_t used, int64_t limit,
                           double multiple_of_free) {
  // One more than what stays free: an account may then have the last unit of a small limit.
  const double free =
      static_cast<double>(limit) - static_cast<double>(used) - static_cast<double>(more) + 1;
  return own == 0 ||
         static_cast<double>(own) + static_cast<double>(more) <= multiple_of_free * free;
}

bool AccountShares::Allows(const std::string& account, int64_t more) const {
  return account.empty() || Allows(HeldBy(account), more, used_, limit_);
}

void AccountShares::Add(const std::string& account, int64_t amount) {
  auto held = held_.find(account);
  if (held == held_.end() && amount != 0) {
    held = held_.try_emplace(account).first;
  }
  if (held == held_.end()) {
    return;
  }
  used_ += amount;
  held->second += amount;
  if (held->second == 0) {
    held_.erase(held);
  }
}

int64_t AccountShares::HeldBy(const std::string& account) const {
  const auto held = held_.find(account);
  return held == held_.end() ? 0 : held->second;
}

}  // namespace attention
