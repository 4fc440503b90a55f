// The part of a run that counts.
#pragma once

#include <atomic>
#include <chrono>

namespace attention {

/// A span of time, whose start and end may be moved. Thread-safe. A window with `awaits_answers` is
/// that of a whole schedule, or of a number of requests, whose answers count whenever they come.
class MeasuredWindow {
 public:
  using Time = std::chrono::steady_clock::time_point;

  MeasuredWindow(Time start, Time end, bool awaits_answers = false)
      : start_(start), end_(end), awaits_answers_(awaits_answers) {}

  Time start() const { return start_.load(std::memory_order_acquire); }
  Time end() const { return end_.load(std::memory_order_acquire); }
  bool awaits_answers() const { return awaits_answers_; }
  std::chrono::nanoseconds length() const { return end() - start(); }
  bool Contains(Time time) const { return time >= start() && time < end(); }

  void Move(Time start, Time end) {
    start_.store(start, std::memory_order_release);
    end_.store(end, std::memory_order_release);
  }
  /// Ends the window at `time`, unless it ends before.
  void EndAt(Time time) {
    if (time < end()) {
      end_.store(time < start() ? start() : time, std::memory_order_release);
    }
  }

  /// Asks the sender of requests to end the window.
  void RequestEnd() { is_end_requested_.store(true, std::memory_order_release); }
  bool is_end_requested() const { return is_end_requested_.load(std::memory_order_acquire); }

 private:
  std::atomic<Time> start_;
  std::atomic<Time> end_;
  const bool awaits_answers_;
  std::atomic<bool> is_end_requested_ = false;
};

}  // namespace attention
