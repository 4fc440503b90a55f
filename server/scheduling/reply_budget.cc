#include "server/scheduling/reply_budget.h"

#include <utility>
#include <vector>

namespace attention {

std::shared_ptr<HeldReply> ReplyBudget::Take(const std::string& account, int64_t bytes,
                                             std::function<void()> give_up, TimePoint now) {
  // Made before the lock is taken, which its destructor takes. Without bytes it has no effect.
  auto held = std::make_shared<HeldReply>(state_, account, std::move(give_up));
  {
    MutexLock lock(state_->mutex);
    const int64_t used = state_->shares.used();
    if (used == 0 || (used + bytes <= state_->max_bytes && state_->shares.Allows(account, bytes))) {
      state_->shares.Prepare(account);
      held->list_position_ = state_->replies.insert(state_->replies.end(), held.get());
      held->bytes_ = bytes;
      state_->shares.Add(account, bytes);
      return held;
    }
  }
  GiveUpOverdue(now);
  return nullptr;
}

void ReplyBudget::GiveUpOverdue(TimePoint now) {
  std::vector<std::function<void()>> overdue;
  {
    MutexLock lock(state_->mutex);
    overdue.reserve(
        state_->replies.size());  // so that nothing throws when a function has been taken
    for (HeldReply* const reply : state_->replies) {
      if (reply->computed_.has_value() && now - *reply->computed_ >= patience_) {
        overdue.push_back(std::move(reply->give_up_));
        reply->computed_.reset();
      }
    }
  }
  for (const std::function<void()>& give_up : overdue) {
    give_up();
  }
}

bool ReplyBudget::HasRoom(const std::string& account) const {
  MutexLock lock(state_->mutex);
  return state_->shares.used() < state_->max_bytes && state_->shares.Allows(account, 1);
}

int64_t ReplyBudget::used_bytes() const {
  MutexLock lock(state_->mutex);
  return state_->shares.used();
}

int64_t ReplyBudget::bytes_of(const std::string& account) const {
  MutexLock lock(state_->mutex);
  return state_->shares.HeldBy(account);
}

HeldReply::HeldReply(std::shared_ptr<ReplyBudget::State> state, std::string account,
                     std::function<void()> give_up)
    : state_(std::move(state)), account_(std::move(account)), give_up_(std::move(give_up)) {}

HeldReply::~HeldReply() {
  if (!bytes_.has_value()) {
    return;
  }
  MutexLock lock(state_->mutex);
  state_->shares.Remove(account_, *bytes_);
  state_->replies.erase(list_position_);
}

void HeldReply::SetComputed(TimePoint now) {
  MutexLock lock(state_->mutex);
  computed_ = now;
}

}  // namespace attention
