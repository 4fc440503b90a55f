// Limits how fast hosts may open connections when their calls bring no work.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/runtime/mutex.h"

namespace attention {

/// Counts the calls that bring no work, and tells when their host may open its next connection.
/// gRPC 1.51 reads new calls faster than they can be ended, so a host that opens many on one
/// connection after another would take memory and time without limit. Such a host gets one
/// connection for each kPause until it has made fewer calls for a while; its open connections stay.
///
/// Calls that gRPC has read and not delivered yet cannot be counted. So a host may have kMaxSilent
/// connections that are silent: taken within kMaxSilence, and no call of theirs was delivered. A
/// host with a quarter of the permitted calls may have one, and silence then lasts for kPause.
///
/// The first kFreeCalls of a connection in a second do not count (at most as many as permitted): a
/// proxy that has one call at a time on a connection is never delayed. Unix sockets are never
/// delayed either. Thread-safe.
class ConnectionPace {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Clock = std::function<TimePoint()>;
  static constexpr int64_t kFreeCalls = 64;
  static constexpr std::chrono::milliseconds kPause{250};
  static constexpr int64_t kMaxSilent = 2;
  static constexpr std::chrono::milliseconds kMaxSilence{25};
  /// The maximum numbers that are counted at a time.
  static constexpr size_t kMaxHosts = 4096;
  static constexpr size_t kMaxConnections = 16384;

  /// A host may make `calls` that count at once, and as many more in each second.
  explicit ConnectionPace(int64_t calls, Clock clock = std::chrono::steady_clock::now)
      : calls_(calls), free_calls_(std::min(calls, kFreeCalls)), clock_(std::move(clock)) {}

  /// Counts a call, which brings no work yet, of a grpc::ServerContext::peer().
  void CountCall(const std::string& peer);
  /// Tells that one of its calls brings work.
  void CountRequest(const std::string& peer);
  /// Returns whether a connection from this port of the host may be taken now; then it is.
  bool Take(const std::string& host, int port);

 private:
  struct Silent {
    int port = 0;
    TimePoint taken;
  };
  struct Host {
    double calls = 0;  // that count at `counted`
    TimePoint counted;
    TimePoint taken;  // the newest connection
    std::vector<Silent> silent;
  };

  double CallsAt(const Host& host, TimePoint now) const;
  /// Tells that calls of a connection have been delivered.
  void Hear(const std::string& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Begins another second when one is over.
  void Forget(TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t calls_;
  const int64_t free_calls_;
  const Clock clock_;
  Mutex mutex_;
  std::unordered_map<std::string, Host> hosts_ ABSL_GUARDED_BY(mutex_);
  /// The calls of each connection in this second.
  std::unordered_map<std::string, int64_t> connections_ ABSL_GUARDED_BY(mutex_);
  TimePoint second_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
