#include "server/health.h"

#include <utility>

namespace attention {
namespace {

constexpr size_t kFewListeners = 64;

}  // namespace

void HealthRegistry::Set(const std::string& name, bool is_serving) {
  {
    MutexLock lock(mutex_);
    is_serving_[name] = is_serving && !is_draining_;
  }
  Notify();
}

void HealthRegistry::Drain() {
  {
    MutexLock lock(mutex_);
    is_draining_ = true;
    for (auto& [name, is_serving] : is_serving_) {
      is_serving = false;
    }
  }
  Notify();
}

void HealthRegistry::SetStalled(bool is_stalled) {
  {
    MutexLock lock(mutex_);
    is_stalled_ = is_stalled;
  }
  Notify();
}

void HealthRegistry::Close() {
  {
    MutexLock lock(mutex_);
    is_closed_ = true;
  }
  Notify();
}

std::optional<bool> HealthRegistry::IsServing(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = is_serving_.find(name);
  return found == is_serving_.end() ? std::nullopt
                                    : std::optional<bool>(found->second && !is_stalled_);
}

bool HealthRegistry::is_draining() const {
  MutexLock lock(mutex_);
  return is_draining_;
}

bool HealthRegistry::is_stalled() const {
  MutexLock lock(mutex_);
  return is_stalled_;
}

bool HealthRegistry::is_closed() const {
  MutexLock lock(mutex_);
  return is_closed_;
}

void HealthRegistry::Subscribe(std::weak_ptr<HealthListener> listener) {
  MutexLock lock(mutex_);
  if (listeners_.size() >= next_sweep_) {
    std::erase_if(listeners_,
                  [](const std::weak_ptr<HealthListener>& known) { return known.expired(); });
    next_sweep_ = 2 * listeners_.size() + kFewListeners;
  }
  listeners_.push_back(std::move(listener));
}

void HealthRegistry::Notify() {
  std::vector<std::weak_ptr<HealthListener>> listeners;
  {
    MutexLock lock(mutex_);
    listeners = listeners_;
  }
  // Listeners are called without the lock, since they ask for the status.
  for (const std::weak_ptr<HealthListener>& known : listeners) {
    if (const std::shared_ptr<HealthListener> listener = known.lock()) {
      listener->OnHealthChange();
    }
  }
}

}  // namespace attention
