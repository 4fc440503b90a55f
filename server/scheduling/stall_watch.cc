#include "server/scheduling/stall_watch.h"

#include <utility>

#include "server/log/log.h"

namespace attention {

bool StallDetector::Look(const Progress& progress) {
  const bool has_moved = progress.steps != last_steps_ || !progress.has_work;
  last_steps_ = progress.steps;
  looks_without_step_ = has_moved ? 0 : looks_without_step_ + 1;
  return looks_without_step_ >= kLooks;
}

bool IdleDetector::Look(const Progress& progress) {
  const bool has_moved = progress.steps != last_steps_ || progress.has_work;
  last_steps_ = progress.steps;
  const bool is_first = !has_moved && has_worked_;
  has_worked_ = has_moved;
  return is_first;
}

StallWatch::StallWatch(std::chrono::nanoseconds timeout, std::function<Progress()> progress,
                       std::function<void(bool)> on_change, std::function<void()> on_idle)
    : interval_(timeout / StallDetector::kLooks),
      progress_(std::move(progress)),
      on_change_(std::move(on_change)),
      on_idle_(std::move(on_idle)),
      thread_([this] { Run(); }) {}

StallWatch::~StallWatch() {
  {
    MutexLock lock(mutex_);
    is_ending_ = true;
  }
  ending_.NotifyAll();
  thread_.join();
}

void StallWatch::Run() {
  StallDetector detector;
  IdleDetector idle_detector;
  bool was_stalled = false;
  while (Wait()) {
    RunLogged("watching for stalls", [&] {
      const Progress progress = progress_();
      if (idle_detector.Look(progress)) {
        on_idle_();
      }
      const bool is_stalled = detector.Look(progress);
      if (is_stalled != was_stalled) {
        on_change_(is_stalled);
        was_stalled = is_stalled;
      }
    });
  }
}

bool StallWatch::Wait() {
  const auto end = std::chrono::steady_clock::now() + interval_;
  MutexLock lock(mutex_);
  while (!is_ending_ && ending_.WaitUntil(mutex_, end)) {
  }
  return !is_ending_;
}

}  // namespace attention
