// Ends streams on which nothing happens: for long, or when the server drains.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/runtime/mutex.h"
#include "server/scheduling/time_point.h"

namespace attention {

/// A stream that can end between two requests.
class IdleStream {
 public:
  /// Ends the stream with `reason` if nothing has happened on it since `before`, and records that;
  /// cancels it if it waits for its client to take an answer. Any thread; does not block, and does
  /// not throw.
  virtual void EndIfIdleSince(TimePoint before, const absl::Status& reason) noexcept = 0;
  /// Ends the stream with `reason` when its running requests are answered. Threads as above.
  virtual void EndWhenAnswered(const absl::Status& reason) noexcept = 0;

 protected:
  ~IdleStream() = default;
};

/// Ends the idle ones of all open streams from time to time. Thread-safe.
class IdleWatch {
 public:
  using Clock = std::function<TimePoint()>;

  /// `timeout` is the time after which an idle stream ends; infinite: never.
  explicit IdleWatch(absl::Duration timeout, Clock clock = std::chrono::steady_clock::now)
      : timeout_(timeout), clock_(std::move(clock)) {}
  ~IdleWatch();

  absl::Duration timeout() const { return timeout_; }
  bool is_on() const { return timeout_ != absl::InfiniteDuration(); }

  /// Starts the thread, which sleeps while no stream is open. Called at most once.
  void Start();
  /// Ends the streams that have been idle for the timeout.
  void Check();
  /// Ends all streams with `reason` when their running requests are answered. No request is refused
  /// by that.
  void EndAll(const absl::Status& reason);

  /// A stream's entry in the watch, until this is destroyed. A member of the stream.
  class Registration {
   public:
    Registration() = default;
    ~Registration();
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

    /// Adds the stream to the watch, which outlives this. Called at most once.
    void Register(IdleWatch& watch, std::weak_ptr<IdleStream> stream);

   private:
    IdleWatch* watch_ = nullptr;
    std::list<std::weak_ptr<IdleStream>>::iterator entry_;
  };

 private:
  void Run();
  /// Returns the open streams. The caller releases them without the lock, which the end of a stream
  /// takes.
  std::vector<std::shared_ptr<IdleStream>> Streams();

  const absl::Duration timeout_;
  const Clock clock_;
  Mutex mutex_;
  CondVar changed_;
  std::list<std::weak_ptr<IdleStream>> streams_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace attention
