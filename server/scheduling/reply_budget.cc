#include "server/scheduling/reply_budget.h"

#include <utility>
#include <vector>

namespace attention {

std::shared_ptr<HeldReply> ReplyBudget::Take(int64_t bytes, std::function<void()> give_up,
                                             TimePoint now) {
  {
    MutexLock lock(state_->mutex);
    if (state_->used_bytes == 0 || state_->used_bytes + bytes <= max_bytes_) {
      state_->used_bytes += bytes;
      auto part = std::make_shared<HeldReply>(state_, bytes, std::move(give_up));
      part->place_ = state_->parts.insert(state_->parts.end(), part.get());
      return part;
    }
  }
  GiveUpOverdue(now);
  return nullptr;
}

void ReplyBudget::GiveUpOverdue(TimePoint now) {
  std::vector<std::function<void()>> overdue;
  {
    MutexLock lock(state_->mutex);
    for (HeldReply* const part : state_->parts) {
      if (part->computed_.has_value() && now - *part->computed_ >= patience_) {
        overdue.push_back(std::move(part->give_up_));
        part->computed_.reset();
      }
    }
  }
  for (const std::function<void()>& give_up : overdue) {
    give_up();
  }
}

int64_t ReplyBudget::used_bytes() const {
  MutexLock lock(state_->mutex);
  return state_->used_bytes;
}

HeldReply::HeldReply(std::shared_ptr<ReplyBudget::State> state, int64_t bytes,
                     std::function<void()> give_up)
    : state_(std::move(state)), bytes_(bytes), give_up_(std::move(give_up)) {}

HeldReply::~HeldReply() {
  MutexLock lock(state_->mutex);
  state_->used_bytes -= bytes_;
  state_->parts.erase(place_);
}

void HeldReply::SetComputed(TimePoint now) {
  MutexLock lock(state_->mutex);
  computed_ = now;
}

}  // namespace attention
