// The share of each account in a main resource of the server: queue, replies, sessions, caches.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <string>

namespace attention {

/// Counts how much of one limit each account (RequestClass::account) holds, and says whether it may
/// have more. It is for what every request needs: time and bytes in the queue, memory of replies,
/// sessions, and bytes of caches. An account that is alone there should get nearly all of the
/// server, so the rule is generous: an account may hold eight times what it leaves free (dynamic
/// thresholds: Choudhury & Hahne 1998).
///
///     held + more <= 8 * (limit - used - more + 1)
///
/// An account that is alone may thus hold 8/9 of the limit, and all of a limit of at most eight. An
/// account that holds nothing may take one amount of any size, since a large request could never
/// run otherwise; the caller checks that this amount does not exceed the limit.
///
/// FairBudget differs: its rule is stricter (half of the total for a holder that is alone, and no
/// exception for the first amount), it keeps the total itself, gives each amount back by a
/// destructor, and is thread-safe. This class only counts: its owner adds, removes and locks. Not
/// thread-safe.
class AccountShares {
 public:
  explicit AccountShares(int64_t limit) : limit_(limit) {}

  /// How many times the free amount an account may hold.
  static constexpr double kMultipleOfFree = 8;

  /// Returns whether, by the rule, an account that holds `own` may have `more`, where all accounts
  /// together hold `used` of `limit`. Always true when `own` is 0.
  static bool Allows(int64_t own, int64_t more, int64_t used, int64_t limit,
                     double multiple_of_free = kMultipleOfFree);
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
