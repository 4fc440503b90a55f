#include "server/services/calls/idle_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/log/log.h"

namespace attention {
namespace {

// Streams are checked so many times in a timeout, and at least once a minute. A stream may end late
// by the time between two checks.
constexpr int kChecksPerTimeout = 8;
constexpr std::chrono::nanoseconds kMaxBetweenChecks = std::chrono::minutes(1);

}  // namespace

IdleWatch::~IdleWatch() {
  {
    MutexLock lock(mutex_);
    is_closed_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void IdleWatch::Start() {
  if (is_on()) {
    thread_ = std::thread([this] { Run(); });
  }
}

void IdleWatch::Run() {
  const std::chrono::nanoseconds pause =
      std::min(absl::ToChronoNanoseconds(timeout_) / kChecksPerTimeout, kMaxBetweenChecks);
  while (true) {
    {
      MutexLock lock(mutex_);
      while (streams_.empty() && !is_closed_) {
        changed_.Wait(mutex_);
      }
      const auto end = std::chrono::steady_clock::now() + pause;
      while (!is_closed_ && changed_.WaitUntil(mutex_, end)) {
      }
      if (is_closed_) {
        return;
      }
    }
    RunLogged("ending idle streams", [this] { Check(); });
  }
}

void IdleWatch::Check() {
  if (!is_on()) {
    return;
  }
  const TimePoint before = clock_() - absl::ToChronoNanoseconds(timeout_);
  const absl::Status reason =
      absl::AbortedError(absl::StrCat("the stream had no request for ",
                                      absl::FormatDuration(timeout_), " (--session-idle-timeout)"));
  for (const std::shared_ptr<IdleStream>& stream : Streams()) {
    stream->EndIfIdleSince(before, reason);
  }
}

void IdleWatch::EndAll(const absl::Status& reason) {
  for (const std::shared_ptr<IdleStream>& stream : Streams()) {
    stream->EndWhenAnswered(reason);
  }
}

std::vector<std::shared_ptr<IdleStream>> IdleWatch::Streams() {
  std::vector<std::shared_ptr<IdleStream>> streams;
  MutexLock lock(mutex_);
  streams.reserve(streams_.size());  // so that nothing throws while a stream is owned
  for (const std::weak_ptr<IdleStream>& stream : streams_) {
    if (std::shared_ptr<IdleStream> open = stream.lock()) {
      streams.push_back(std::move(open));
    }
  }
  return streams;
}

void IdleWatch::Registration::Register(IdleWatch& watch, std::weak_ptr<IdleStream> stream) {
  std::list<std::weak_ptr<IdleStream>> added;
  added.push_back(std::move(stream));
  MutexLock lock(watch.mutex_);
  const bool wakes = watch.streams_.empty();
  watch.streams_.splice(watch.streams_.end(), added);
  entry_ = std::prev(watch.streams_.end());
  watch_ = &watch;
  if (wakes) {
    watch.changed_.NotifyAll();
  }
}

IdleWatch::Registration::~Registration() {
  std::list<std::weak_ptr<IdleStream>> removed;  // freed without the lock
  if (watch_ != nullptr) {
    MutexLock lock(watch_->mutex_);
    removed.splice(removed.end(), watch_->streams_, entry_);
  }
}

}  // namespace attention
