// Limits for messages that take long to arrive, and for small answers that their callers do not
// take.
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

/// A call that is receiving a message, or whose answer is being taken.
class MessageReceiver {
 public:
  /// Returns the account that is charged for the time that the message takes.
  virtual std::string Holder() const = 0;
  /// Ends the call with `status`, because its message took too long; if it has been answered,
  /// cancels it. Called by the watch's thread; does not block, and does not throw.
  virtual void StopReceiving(const absl::Status& status) noexcept = 0;

 protected:
  ~MessageReceiver() = default;
};

/// Limits the time of messages that arrive, since gRPC does not report the size of a message before
/// it is complete. A message that is complete within a tick costs nothing; for each further tick
/// its call holds one more unit of a budget that all callers share, of which no caller can hold
/// all. A call that does not get the unit, or that has as many units as its permitted size allows,
/// is ended. An answer holds its first unit at once, until the transport has taken it: a client
/// that gives its streams no window would otherwise hold its calls for ever. Thread-safe.
class ReceiveWatch {
 public:
  static constexpr int64_t kMaxUnits = 4096;
  /// The number of ticks that any message may take, and the permitted bytes that give one more
  /// tick.
  static constexpr int64_t kBaseTicks = 20;
  static constexpr int64_t kBytesPerTick = int64_t{1} << 20;

  explicit ReceiveWatch(int64_t max_units = kMaxUnits) : units_(max_units) {}
  ~ReceiveWatch();

  /// Starts the thread, which calls Tick at this interval while messages arrive. Called once.
  void Start(std::chrono::nanoseconds tick);
  /// Handles the end of one tick.
  void Tick();

  /// Returns the number of messages that are arriving and of small answers that are being sent.
  int64_t num_watched() const;
  /// Returns the number of held units.
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

  std::list<Entry>::iterator Add(std::weak_ptr<MessageReceiver> receiver, int64_t max_bytes,
                                 std::vector<std::unique_ptr<FairBudget::Part>> units = {});
  /// Returns whether the call was not stopped.
  bool Remove(std::list<Entry>::iterator entry);
  /// Takes a unit; the call may continue if OK. Throws when there is no memory.
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

/// The reception of a message; a member of its call.
class Reception {
 public:
  explicit Reception(ReceiveWatch& watch) : watch_(watch) {}
  ~Reception() { End(); }
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  /// Begins the reading of a message of at most `max_bytes`. REQUIRES: the one before has ended.
  void Begin(std::weak_ptr<MessageReceiver> receiver, int64_t max_bytes) {
    entry_ = watch_.Add(std::move(receiver), max_bytes);
  }
  /// Begins the sending of an answer of so many bytes. Returns false if its holder has no unit: the
  /// call has to be cancelled. REQUIRES: the message before has ended.
  bool BeginAnswer(std::weak_ptr<MessageReceiver> receiver, int64_t bytes,
                   const std::string& holder) {
    std::vector<std::unique_ptr<FairBudget::Part>> units;
    units.push_back(watch_.units_.Take(holder, 1));
    const bool has_unit = units.back() != nullptr;
    entry_ = watch_.Add(std::move(receiver), bytes, std::move(units));
    return has_unit;
  }
  /// Ends the reading or the sending. Returns false if the watch has stopped the call: then
  /// StopReceiving ends it, and the caller does nothing more.
  bool End() {
    const auto entry = std::exchange(entry_, std::nullopt);
    return !entry.has_value() || watch_.Remove(*entry);
  }

 private:
  ReceiveWatch& watch_;
  std::optional<std::list<ReceiveWatch::Entry>::iterator> entry_;
};

}  // namespace attention
