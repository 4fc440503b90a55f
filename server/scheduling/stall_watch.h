// Notices that the compute threads have stopped, and that they have nothing more to do.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "core/runtime/mutex.h"

namespace attention {

/// The steps of the compute threads so far, and whether there is something to do.
struct Progress {
  /// Counts batches, and the slices of long ones, that began or ended.
  int64_t steps = 0;
  bool has_work = false;
};

/// Decides from repeated looks whether the compute threads stall. It counts looks, not time, so a
/// process that was stopped and continued is not taken for one that stalls. Not thread-safe.
class StallDetector {
 public:
  /// The number of looks in a row that must find work and no step.
  static constexpr int kLooks = 6;

  /// Returns whether the compute threads stall.
  bool Look(const Progress& progress);

 private:
  int64_t last_steps_ = -1;
  int looks_without_step_ = 0;
};

/// Decides from repeated looks when there is nothing to do after some work. Not thread-safe.
class IdleDetector {
 public:
  /// Returns whether nothing was done since the last look, for the first time since there was work.
  bool Look(const Progress& progress);

 private:
  int64_t last_steps_ = 0;
  bool has_worked_ = false;
};

/// Looks at the progress from a thread of its own, kLooks times in `timeout`.
class StallWatch {
 public:
  /// `on_change` is called by that thread when the compute threads stall, and when they continue.
  /// If it throws, the next look calls it again. `on_idle` is called by that thread when they are
  /// idle after work.
  StallWatch(
      std::chrono::nanoseconds timeout, std::function<Progress()> progress,
      std::function<void(bool is_stalled)> on_change, std::function<void()> on_idle = [] {});
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

 private:
  void Run();
  /// Waits for the next look. Returns false when the watch ends.
  bool Wait();

  const std::chrono::nanoseconds interval_;
  const std::function<Progress()> progress_;
  const std::function<void(bool)> on_change_;
  const std::function<void()> on_idle_;
  Mutex mutex_;
  CondVar ending_;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace attention
