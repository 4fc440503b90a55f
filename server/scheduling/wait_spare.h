// How much longer than expected requests may wait, by how many came too late.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

#include "server/scheduling/time_point.h"

namespace attention {

/// Under overload the queue is as long as deadlines allow, and each request that is taken would end
/// just at its deadline, or just after it. Admission therefore asks for time to spare, but only
/// when it is needed: the share of that time grows with each request of an account that ends too
/// late, and shrinks with each that does not, so that about one in twenty is late. An account whose
/// requests are in time is never refused for it. Not thread-safe.
class WaitSpare {
 public:
  /// An account none of whose requests has ended for this long needs no time to spare.
  static constexpr std::chrono::seconds kMemory{5};
  /// The maximum number of accounts. Further accounts have no time to spare.
  static constexpr size_t kMaxAccounts = 1024;

  /// Counts the end of a request that had a deadline.
  void CountEnd(const std::string& account, bool is_late, TimePoint now);
  /// Returns the share of the time to spare that a request of the account needs, 0 to 1.
  double ShareOf(const std::string& account, TimePoint now) const;

 private:
  struct Account {
    double share = 0;
    TimePoint counted;
  };
  std::map<std::string, Account> accounts_;
};

}  // namespace attention
