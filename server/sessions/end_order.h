// The order in which parked sessions end.
#pragma once

#include <map>
#include <string>

#include "server/scheduling/time_point.h"

namespace attention {

/// The ends of parked sessions, by account and time: the first of all, or of some accounts, is
/// found without looking at each session. Not thread-safe.
class EndOrder {
 public:
  /// Sessions' resume tokens by the times at which they end.
  using Ends = std::multimap<TimePoint, std::string>;

  EndOrder() = default;
  /// The order of one session.
  EndOrder(const std::string& account, TimePoint end, const std::string& token) {
    by_account_[account].emplace(end, token);
  }

  /// Takes what `other` has, without allocating memory.
  void Merge(EndOrder& other) {
    for (auto& [account, ends] : other.by_account_) {
      if (const auto found = by_account_.find(account); found != by_account_.end()) {
        found->second.merge(ends);
      }
    }
    by_account_.merge(other.by_account_);
  }
  /// REQUIRES: the session is there.
  void Remove(const std::string& account, TimePoint end, const std::string& token) {
    const auto found = by_account_.find(account);
    Ends& ends = found->second;
    auto session = ends.lower_bound(end);
    while (session->second != token) {
      ++session;
    }
    ends.erase(session);
    if (ends.empty()) {
      by_account_.erase(found);
    }
  }
  /// Returns the session that ends first, of the accounts for which `may_end` returns true; nullptr
  /// when there is none.
  template <typename MayEnd>
  const Ends::value_type* First(const MayEnd& may_end) const {
    const Ends::value_type* first = nullptr;
    for (const auto& [account, ends] : by_account_) {
      const Ends::value_type& candidate = *ends.begin();
      if ((first == nullptr || candidate.first < first->first) && may_end(account)) {
        first = &candidate;
      }
    }
    return first;
  }

 private:
  std::map<std::string, Ends> by_account_;  // none of them is empty
};

}  // namespace attention
