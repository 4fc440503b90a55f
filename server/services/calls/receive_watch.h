// Messages on their way in, and what becomes of those that take long.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/runtime/mutex.h"
#include "server/scheduling/fair_budget.h"

namespace attention {

/// A call that is receiving a message.
class MessageReceiver {
 public:
  /// Who is charged for the time that the message takes.
  virtual std::string Holder() const = 0;
  /// Ends the call: its message is not waited for any longer. By the watch's thread; does not
  /// block, and does not throw.
  virtual void StopReceiving(const absl::Status& status) noexcept = 0;

 protected:
  ~MessageReceiver() = default;
};

/// gRPC tells nobody how much of a message is there before it is whole, so what is counted is time.
/// A message that is whole within a tick costs nothing; for each tick more, its call holds one unit
/// more of a budget that all callers share, of which none can hold all. Who does not get the unit,
/// or has had as many as the message's permitted size is worth, is ended. Thread-safe.
class ReceiveWatch {
 public:
  static constexpr int64_t kMaxUnits = 4096;
  /// Any message may take so many ticks, and one more for each of so many bytes that it may have.
  static constexpr int64_t kBaseTicks = 20;
  static constexpr int64_t kBytesPerTick = int64_t{1} << 20;

  explicit ReceiveWatch(int64_t max_units = kMaxUnits) : units_(max_units) {}
  ~ReceiveWatch();

  /// Ticks from now on, while messages are on their way. Called once.
  void Start(std::chrono::nanoseconds tick);
  /// One tick is over.
  void Tick();

  int64_t num_receiving() const;
  /// Units that are held.
  int64_t used_units() const { return units_.used(); }

 private:
  friend class Reception;
  struct Entry {
    std::weak_ptr<MessageReceiver> receiver;
    int64_t max_ticks = 0;
    int64_t ticks = 0;
    bool is_stopped = false;
    std::vector<std::unique_ptr<FairBudget::Part>> units = {};
  };

  std::list<Entry>::iterator Add(std::weak_ptr<MessageReceiver> receiver, int64_t max_bytes);
  /// Whether it was not stopped.
  bool Remove(std::list<Entry>::iterator entry);
  /// OK: it may go on. Throws without memory.
  absl::Status Charge(Entry& entry, const MessageReceiver& receiver);
  void Run(std::chrono::nanoseconds tick);

  FairBudget units_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  bool is_asleep_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

/// One message of a call; a member of it.
class Reception {
 public:
  explicit Reception(ReceiveWatch& watch) : watch_(watch) {}
  ~Reception() { End(); }
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  /// The call has begun to read a message of at most so many bytes. Once.
  void Begin(std::weak_ptr<MessageReceiver> receiver, int64_t max_bytes) {
    entry_ = watch_.Add(std::move(receiver), max_bytes);
  }
  /// The read is over. False: StopReceiving has been called or will be, and ends the call.
  bool End() {
    const auto entry = std::exchange(entry_, std::nullopt);
    return !entry.has_value() || watch_.Remove(*entry);
  }

 private:
  ReceiveWatch& watch_;
  std::optional<std::list<ReceiveWatch::Entry>::iterator> entry_;
};

}  // namespace attention
