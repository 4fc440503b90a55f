// The memory of replies, from when a request is accepted until the transport has let go of its
// reply.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "core/runtime/mutex.h"
#include "server/scheduling/job.h"

namespace attention {

/// Thread-safe.
class ReplyBudget {
 public:
  /// A reply that is not taken for so long after it was computed makes room for others.
  ReplyBudget(int64_t max_bytes, std::chrono::nanoseconds patience)
      : max_bytes_(max_bytes), patience_(patience) {}

  /// The bytes of one reply, until the part is destroyed, which may be after the budget. Null when
  /// they do not fit, after GiveUpOverdue; a reply that is larger than the budget fits when there
  /// is no other. `give_up` may be called after the reply's end.
  std::shared_ptr<HeldReply> Take(int64_t bytes, std::function<void()> give_up, TimePoint now);

  /// Calls give_up of those whose time is over, of each once, without a lock.
  void GiveUpOverdue(TimePoint now);

  int64_t used_bytes() const;
  int64_t max_bytes() const { return max_bytes_; }

 private:
  friend class HeldReply;
  struct State {
    Mutex mutex;
    int64_t used_bytes ABSL_GUARDED_BY(mutex) = 0;
    std::list<HeldReply*> parts ABSL_GUARDED_BY(mutex);
  };

  const int64_t max_bytes_;
  const std::chrono::nanoseconds patience_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

class HeldReply {
 public:
  /// Of Take, under the state's lock.
  HeldReply(std::shared_ptr<ReplyBudget::State> state, int64_t bytes,
            std::function<void()> give_up);
  ~HeldReply();
  HeldReply(const HeldReply&) = delete;
  HeldReply& operator=(const HeldReply&) = delete;

  /// From now on the caller is to take it.
  void SetComputed(TimePoint now);

 private:
  friend class ReplyBudget;

  const std::shared_ptr<ReplyBudget::State> state_;
  const int64_t bytes_;
  // Under the state's lock, which annotations cannot say.
  std::list<HeldReply*>::iterator place_;
  std::function<void()> give_up_;
  std::optional<TimePoint> computed_;
};

}  // namespace attention
