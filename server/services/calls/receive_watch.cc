#include "server/services/calls/receive_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/contain.h"
#include "server/log/log.h"
#include "server/scheduling/refusal.h"

namespace attention {
namespace {

constexpr int64_t kRetrySlowMs = 5000;

}  // namespace

ReceiveWatch::~ReceiveWatch() {
  {
    MutexLock lock(mutex_);
    is_closed_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ReceiveWatch::Start(std::chrono::nanoseconds tick) {
  thread_ = std::thread([this, tick] { Run(tick); });
}

// The thread sleeps while no message arrives, and otherwise wakes up once each tick.
void ReceiveWatch::Run(std::chrono::nanoseconds tick) {
  while (true) {
    {
      MutexLock lock(mutex_);
      is_asleep_ = entries_.empty();
      while (is_asleep_ && !is_closed_) {
        changed_.Wait(mutex_);
      }
      const auto end = std::chrono::steady_clock::now() + tick;
      while (!is_closed_ && changed_.WaitUntil(mutex_, end)) {
      }
      if (is_closed_) {
        return;
      }
    }
    RunLogged("watching messages", [this] { Tick(); });
  }
}

absl::Status ReceiveWatch::Charge(Entry& entry, const MessageReceiver& receiver) {
  if (++entry.ticks == 1) {
    return absl::OkStatus();  // it may have arrived just before the tick
  }
  if (entry.ticks > entry.max_ticks) {
    return absl::DeadlineExceededError(absl::StrCat(
        "expected the whole message within ", entry.max_ticks, " s, found none or a part of it"));
  }
  const std::string holder = receiver.Holder();
  entry.units.push_back(units_.Take(holder, 1));
  if (entry.units.back() != nullptr) {
    return absl::OkStatus();
  }
  return Refuse(absl::StatusCode::kResourceExhausted,
                absl::StrCat("too many messages arrive slowly: after ", entry.ticks, " s, ", holder,
                             " has used its share of the time for such messages"),
                {.reason = RefusalReason::kTenantShare, .retry_after_ms = kRetrySlowMs});
}

void ReceiveWatch::Tick() {
  struct Visited {
    std::shared_ptr<MessageReceiver> receiver;
    absl::Status status;
  };
  // Released without the lock: if this is the last owner, the call's end takes the lock.
  std::vector<Visited> visited;
  {
    MutexLock lock(mutex_);
    visited.reserve(entries_.size());
    for (Entry& entry : entries_) {
      std::shared_ptr<MessageReceiver> receiver = entry.receiver.lock();
      if (entry.is_stopped || receiver == nullptr) {
        visited.push_back({std::move(receiver), absl::OkStatus()});
        continue;
      }
      absl::Status status = Contain("watching messages", [&] { return Charge(entry, *receiver); });
      if (!status.ok()) {
        entry.is_stopped = true;
        entry.units.clear();
      }
      visited.push_back({std::move(receiver), std::move(status)});
    }
  }
  for (const Visited& one : visited) {
    if (!one.status.ok()) {
      one.receiver->StopReceiving(one.status);
    }
  }
}

int64_t ReceiveWatch::num_watched() const {
  MutexLock lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

std::list<ReceiveWatch::Entry>::iterator ReceiveWatch::Add(
    std::weak_ptr<MessageReceiver> receiver, int64_t max_bytes,
    std::vector<std::unique_ptr<FairBudget::Part>> units) {
  std::list<Entry> added;
  added.push_back({.receiver = std::move(receiver),
                   .max_ticks = kBaseTicks + max_bytes / kBytesPerTick,
                   .units = std::move(units)});
  MutexLock lock(mutex_);
  entries_.splice(entries_.end(), added);
  if (is_asleep_) {
    is_asleep_ = false;
    changed_.NotifyAll();
  }
  return std::prev(entries_.end());
}

bool ReceiveWatch::Remove(std::list<Entry>::iterator entry) {
  std::list<Entry> removed;  // freed without the lock
  MutexLock lock(mutex_);
  removed.splice(removed.end(), entries_, entry);
  return !removed.front().is_stopped;
}

}  // namespace attention
