// The order in which parked sessions end.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "server/scheduling/time_point.h"

namespace attention {

/// The ends of parked sessions, by account and time: the first of all, or of some accounts, and the
/// memory of an account are found without looking at each session. Not thread-safe.
class EndOrder {
 public:
  /// Sessions' resume tokens by the times at which they end.
  using Ends = std::multimap<TimePoint, std::string>;

  EndOrder() = default;
  /// The order of one session, which holds `bytes`.
  EndOrder(const std::string& account, TimePoint end, const std::string& token, int64_t bytes) {
    Account& only = by_account_[account];
    only.ends.emplace(end, token);
    only.bytes = bytes;
  }

  /// Takes what `other` has, without allocating memory.
  void Merge(EndOrder& other) {
    for (auto& [name, account] : other.by_account_) {
      if (const auto found = by_account_.find(name); found != by_account_.end()) {
        found->second.ends.merge(account.ends);
        found->second.bytes += account.bytes;
      }
    }
    by_account_.merge(other.by_account_);
  }
  /// REQUIRES: the session is there, with these bytes.
  void Remove(const std::string& account, TimePoint end, const std::string& token, int64_t bytes) {
    const auto found = by_account_.find(account);
    Ends& ends = found->second.ends;
    found->second.bytes -= bytes;
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
    for (const auto& [name, account] : by_account_) {
      const Ends::value_type& candidate = *account.ends.begin();
      if ((first == nullptr || candidate.first < first->first) && may_end(name)) {
        first = &candidate;
      }
    }
    return first;
  }
  /// Returns what the sessions of an account hold.
  int64_t BytesOf(const std::string& account) const {
    const auto found = by_account_.find(account);
    return found == by_account_.end() ? 0 : found->second.bytes;
  }
  /// Returns what the sessions of all accounts hold.
  int64_t bytes() const {
    int64_t bytes = 0;
    for (const auto& [_, account] : by_account_) {
      bytes += account.bytes;
    }
    return bytes;
  }

 private:
  struct Account {
    Ends ends;  // not empty
    int64_t bytes = 0;
  };

  std::map<std::string, Account> by_account_;
};

}  // namespace attention
