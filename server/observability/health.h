// What serves and what does not, by name.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/runtime/mutex.h"

namespace attention {

/// The name that serves from when every model found at the start does, until draining; the server's
/// own name, the empty one, does so from when each is loaded or has failed.
inline constexpr char kAllModels[] = "model/*";

/// Hears of changes.
class HealthListener {
 public:
  virtual ~HealthListener() = default;
  /// Some name's state changed, or the registry closed. From any thread; does not block.
  virtual void OnHealthChange() = 0;
};

/// Thread-safe.
class HealthRegistry {
 public:
  /// Registers the name, or changes its state; not after Drain.
  void Set(const std::string& name, bool is_serving);
  /// Nothing serves any more, for good.
  void Drain();
  /// Watches end.
  void Close();

  /// Null when the name is not registered.
  std::optional<bool> IsServing(const std::string& name) const;
  bool is_draining() const;
  bool is_closed() const;

  /// For as long as the listener lives.
  void Subscribe(std::weak_ptr<HealthListener> listener);

 private:
  void Notify();

  mutable Mutex mutex_;
  std::map<std::string, bool> is_serving_ ABSL_GUARDED_BY(mutex_);
  bool is_draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  /// Some may be gone: they are looked for when there are twice as many as were left the last time.
  std::vector<std::weak_ptr<HealthListener>> listeners_ ABSL_GUARDED_BY(mutex_);
  size_t next_sweep_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace attention
