// The health status by name: what serves and what does not.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/mutex.h"

namespace attention {

/// The name that covers all models. It serves from the time when every model that was found at the
/// start (or every required one) has served, until the server drains. The empty name, which is the
/// server's own, serves as soon as each of these models is loaded or has failed.
inline constexpr char kAllModels[] = "model/*";
/// Returns the service that stands for a model.
inline std::string HealthNameOf(std::string_view model) { return "model/" + std::string(model); }

/// Receives changes of a HealthRegistry.
class HealthListener {
 public:
  virtual ~HealthListener() = default;
  /// The registry calls this, on any thread, when the status of a name may have changed or when it
  /// was closed. It must not block.
  virtual void OnHealthChange() = 0;
};

/// Holds the status of each name. Thread-safe.
class HealthRegistry {
 public:
  /// Registers the name, or changes its status. After Drain every status stays not serving,
  /// whatever is set.
  void Set(const std::string& name, bool is_serving);
  /// Sets every name to not serving, for good.
  void Drain();
  /// Reports every name as not serving while the compute threads stall.
  void SetStalled(bool is_stalled);
  /// Ends all watches.
  void Close();

  /// Returns null when the name is not registered.
  std::optional<bool> IsServing(const std::string& name) const;
  bool is_draining() const;
  bool is_stalled() const;
  bool is_closed() const;

  /// Notifies the listener of changes as long as it lives.
  void Subscribe(std::weak_ptr<HealthListener> listener);

 private:
  void Notify();

  mutable Mutex mutex_;
  std::map<std::string, bool> is_serving_ ABSL_GUARDED_BY(mutex_);
  bool is_draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stalled_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  /// Some listeners may have ended. They are removed when the list has doubled since the last
  /// removal.
  std::vector<std::weak_ptr<HealthListener>> listeners_ ABSL_GUARDED_BY(mutex_);
  size_t next_sweep_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace attention
