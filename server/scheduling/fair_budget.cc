#include "server/scheduling/fair_budget.h"

#include <utility>

namespace attention {

FairBudget::FairBudget(int64_t total) : total_(total) {}

std::unique_ptr<FairBudget::Part> FairBudget::Take(const std::string& holder, int64_t amount) {
  auto part = std::make_unique<Part>(state_, holder);  // holds nothing yet
  MutexLock lock(state_->mutex);
  int64_t& held = state_->by_holder.try_emplace(holder, 0).first->second;
  const int64_t free = total_ - state_->used;
  if (amount > free || held + amount > free - amount) {
    return nullptr;
  }
  state_->used += amount;
  held += amount;
  part->amount_ = amount;
  return part;
}

int64_t FairBudget::used() const {
  MutexLock lock(state_->mutex);
  return state_->used;
}

FairBudget::Part::Part(std::shared_ptr<State> state, std::string holder)
    : state_(std::move(state)), holder_(std::move(holder)) {}

FairBudget::Part::~Part() {
  MutexLock lock(state_->mutex);
  state_->used -= amount_;
  const auto found = state_->by_holder.find(holder_);
  if (found == state_->by_holder.end()) {
    return;  // it never held anything
  }
  found->second -= amount_;
  if (found->second == 0) {
    state_->by_holder.erase(found);
  }
}

}  // namespace attention
