// An amount that callers share, of which a single caller gets at most half.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/runtime/mutex.h"

namespace attention {

/// Divides a total between holders (accounts). It is for what an ordinary caller hardly needs, and
/// a hostile one could use up: units of slow messages, streams without a token, actions that wait,
/// tables of shared pages. The rule is therefore strict: a holder may hold at most as much as it
/// leaves free. The first can get half of the total, the next a quarter, and so on, so that
/// something is left for the next one.
///
/// AccountShares differs: it is for what every request needs, lets an account hold eight times what
/// it leaves free, and only counts. Thread-safe.
class FairBudget {
 public:
  /// A part of the amount, which is given back when it is destroyed. It may outlive the budget.
  class Part;

  explicit FairBudget(int64_t total);

  /// Takes a part. Returns null when the holder would then hold more than it leaves free. Throws
  /// std::bad_alloc; then nothing has changed.
  std::unique_ptr<Part> Take(const std::string& holder, int64_t amount);

  int64_t total() const { return total_; }
  int64_t used() const;

 private:
  struct State {
    Mutex mutex;
    int64_t used ABSL_GUARDED_BY(mutex) = 0;
    std::map<std::string, int64_t> by_holder ABSL_GUARDED_BY(mutex);
  };

  const int64_t total_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

class FairBudget::Part {
 public:
  /// FairBudget::Take calls this, and counts the part then.
  Part(std::shared_ptr<State> state, std::string holder);
  ~Part();
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

 private:
  friend class FairBudget;
  const std::shared_ptr<State> state_;
  const std::string holder_;
  int64_t amount_ = 0;
};

}  // namespace attention
