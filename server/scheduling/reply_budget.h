// The memory of replies, from the acceptance of a request until the transport has released its
// reply.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "core/runtime/mutex.h"
#include "server/scheduling/account_shares.h"
#include "server/scheduling/time_point.h"

namespace attention {

class HeldReply;

/// Limits the memory of all replies, and the share of each account. Thread-safe.
class ReplyBudget {
 public:
  /// A reply that its caller has not read for this time after its computation makes room for
  /// others.
  ReplyBudget(int64_t max_bytes, std::chrono::nanoseconds patience)
      : patience_(patience), state_(std::make_shared<State>(max_bytes)) {}

  /// Takes the bytes of one reply, until the HeldReply is destroyed, which may be after the budget.
  /// Returns null when they do not fit, or exceed the account's share; then it also calls
  /// GiveUpOverdue, so that a later reply may fit. A reply that is larger than the budget fits when
  /// there is no other. `give_up` may be called after the reply's end.
  std::shared_ptr<HeldReply> Take(const std::string& account, int64_t bytes,
                                  std::function<void()> give_up, TimePoint now);

  /// Returns whether the account might have the smallest reply now.
  bool HasRoom(const std::string& account) const;

  /// Calls `give_up` of the replies whose time is over, once for each, without holding a lock.
  void GiveUpOverdue(TimePoint now);

  int64_t used_bytes() const;
  int64_t bytes_of(const std::string& account) const;
  int64_t max_bytes() const { return state_->max_bytes; }

 private:
  friend class HeldReply;
  struct State {
    explicit State(int64_t limit) : max_bytes(limit) {}
    const int64_t max_bytes;
    Mutex mutex;
    AccountShares shares ABSL_GUARDED_BY(mutex){max_bytes};
    std::list<HeldReply*> replies ABSL_GUARDED_BY(mutex);
  };

  const std::chrono::nanoseconds patience_;
  const std::shared_ptr<State> state_;
};

/// The memory of one reply, held in the budget until this is destroyed.
class HeldReply {
 public:
  /// ReplyBudget::Take calls this, and sets the number of bytes.
  HeldReply(std::shared_ptr<ReplyBudget::State> state, std::string account,
            std::function<void()> give_up);
  ~HeldReply();
  HeldReply(const HeldReply&) = delete;
  HeldReply& operator=(const HeldReply&) = delete;

  /// Begins the time that the caller has to read the reply: it is computed.
  void SetComputed(TimePoint now);

 private:
  friend class ReplyBudget;

  const std::shared_ptr<ReplyBudget::State> state_;
  const std::string account_;
  std::optional<int64_t> bytes_;  // null: it holds nothing
  // Guarded by the state's lock, which annotations cannot express.
  std::list<HeldReply*>::iterator list_position_;
  std::function<void()> give_up_;
  std::optional<TimePoint> computed_;
};

}  // namespace attention
