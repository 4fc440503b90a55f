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

/// Counts the calls that bring no work, and decides when their host may open its next connection.
/// gRPC 1.51 reads new calls faster than they can be ended, so a host that opens many on one
/// connection after another would take memory and time without limit. Such a host gets one
/// connection in each kPause until it has made fewer calls for a while. Its open connections stay.
/// Its next connection also waits until no such call was delivered for kQuiet, though no longer
/// than kMaxPause: on a busy machine gRPC may still hold many calls of the connections before.
///
/// Calls that gRPC has read and not delivered yet cannot be counted. So a host may have kMaxSilent
/// connections that are silent: those that were taken less than kMaxSilence ago, and of which no
/// call was delivered. A host that makes more than a quarter of the permitted calls may have one,
/// which counts as silent for kPause.
///
/// The first kFreeCalls of a connection in a second do not count (at most as many as permitted): a
/// proxy that has one call at a time on a connection is never delayed. Unix sockets are never
/// delayed either.
///
/// A connection that makes more than kFloodTimes of the permitted calls a second, of which wrong
/// requests count here, is ended when it is kFloodSeconds ahead. A client that ignores the limit of
/// streams can send so many: gRPC 1.51 does not enforce the limit before the client has
/// acknowledged it, and such calls would stop all others. After a pause of the server, calls whose
/// callers have given up are delivered together, which is no flood. Thread-safe.
class ConnectionPace {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Clock = std::function<TimePoint()>;
  /// Ends the connection of a grpc::ServerContext::peer().
  using EndConnection = std::function<void(const std::string& peer)>;
  static constexpr int64_t kFreeCalls = 64;
  static constexpr int64_t kFloodTimes = 16;
  static constexpr int64_t kFloodSeconds = 2;
  static constexpr std::chrono::milliseconds kPause{250};
  static constexpr std::chrono::milliseconds kQuiet{100};
  static constexpr std::chrono::milliseconds kMaxPause{1000};
  static constexpr int64_t kMaxSilent = 2;
  static constexpr std::chrono::milliseconds kMaxSilence{25};
  /// The maximum numbers of hosts and connections whose calls are counted at a time.
  static constexpr size_t kMaxHosts = 4096;
  static constexpr size_t kMaxConnections = 16384;

  /// A host may make `calls` that count at once, and as many more in each second.
  explicit ConnectionPace(int64_t calls, Clock clock = std::chrono::steady_clock::now)
      : calls_(calls), free_calls_(std::min(calls, kFreeCalls)), clock_(std::move(clock)) {}

  /// Sets what ends a connection; null: nothing. It is called with a lock, and must not use this.
  void set_end_connection(EndConnection end);
  /// Counts a call that brings no work yet. `peer` is its grpc::ServerContext::peer().
  void CountCall(const std::string& peer);
  /// Counts a call that brought a wrong request: only for the end of a connection.
  void CountWrong(const std::string& peer);
  /// Takes back the count of one call of the peer, which brings work.
  void CountRequest(const std::string& peer);
  /// Returns whether a connection from this port of the host may be taken now. If so, it counts as
  /// taken.
  bool Take(const std::string& host, int port);

 private:
  struct Silent {
    int port = 0;
    TimePoint taken;
  };
  struct Host {
    double calls = 0;   // the calls that count, at the time `counted`
    TimePoint counted;  // when the newest of them was delivered
    TimePoint taken;    // when the newest connection was taken
    std::vector<Silent> silent;
  };

  struct Connection {
    int64_t calls = 0;  // in this second that bring no work yet
    /// How far it is ahead of kFloodTimes of the permitted calls, at the time `counted`.
    double ahead = 0;
    TimePoint counted;
    bool is_ended = false;
  };

  double CallsAt(const Host& host, TimePoint now) const;
  /// Whether a host that makes many calls must wait for its next connection.
  static bool MustPause(const Host& host, TimePoint now);
  double AheadAt(const Connection& connection, TimePoint now) const;
  /// Counts a call without work, or a wrong one. Ends the connection if it is too far ahead.
  void CountFlood(const std::string& peer, TimePoint now, Connection& connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Ends the silence of a connection, of which a call was delivered.
  void EndSilence(const std::string& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Once a second, forgets the calls of each connection, and the connections and hosts of which
  /// nothing counts.
  void Forget(TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t calls_;
  const int64_t free_calls_;
  const Clock clock_;
  Mutex mutex_;
  EndConnection end_connection_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Host> hosts_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  TimePoint second_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
