// How much each account holds of an amount that all callers share.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <string>

namespace attention {

/// One limit, and how much each account (RequestClass::account) holds of it. The rule is the same
/// for time and bytes in the queue, replies, sessions and cache bytes: an account may hold eight
/// times what it leaves free (dynamic thresholds: Choudhury & Hahne 1998). FairBudget has a
/// stricter one, for what only few callers need at a time. An account that is alone may hold 8/9 of
/// the limit. An account that holds nothing may take one amount of any size, since a large request
/// could never run otherwise; callers check that one amount does not exceed the limit. Of a limit
/// of at most eight an account may hold all. Not thread-safe.
class AccountShares {
 public:
  explicit AccountShares(int64_t limit) : limit_(limit) {}

  static constexpr double kShareOfFree = 8;

  /// Returns whether, by the rule, an account that holds `own` may have `more`, where all accounts
  /// together hold `used` of `limit`. An account that holds nothing may, however much it is.
  static bool Allows(int64_t own, int64_t more, int64_t used, int64_t limit,
                     double share_of_free = kShareOfFree);
  /// Returns whether the account may have `more`. The empty account may have anything.
  bool Allows(const std::string& account, int64_t more) const;

  /// After this, Add does not allocate for the account, and does not throw.
  void Prepare(const std::string& account) { held_.try_emplace(account); }
  /// Forgets an account that then holds nothing. Throws when there is no memory; then nothing has
  /// changed.
  void Add(const std::string& account, int64_t amount);
  /// Removes a part of what was added. Does not throw.
  void Remove(const std::string& account, int64_t amount) { Add(account, -amount); }

  int64_t HeldBy(const std::string& account) const;
  int64_t used() const { return used_; }
  int64_t limit() const { return limit_; }
  /// Returns the number of accounts that are not forgotten.
  int64_t accounts() const { return std::ssize(held_); }

 private:
  const int64_t limit_;
  int64_t used_ = 0;
  std::map<std::string, int64_t> held_;  // of the accounts that hold, or held, something
};

}  // namespace attention
