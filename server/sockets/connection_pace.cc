#include "server/sockets/connection_pace.h"

#include <algorithm>

#include "server/sockets/peer_host.h"

namespace attention {
namespace {

// Calls beyond this multiple of the permitted ones are not counted, so that a host that stops is
// free again after a second.
constexpr double kMaxTimes = 2;
// A host with more than this share of the permitted calls may have only one silent connection.
constexpr double kSomeCalls = 0.25;

}  // namespace

double ConnectionPace::CallsAt(const Host& host, TimePoint now) const {
  const double seconds = std::chrono::duration<double>(now - host.counted).count();
  return std::max(0.0, host.calls - seconds * static_cast<double>(calls_));
}

double ConnectionPace::AheadAt(const Connection& connection, TimePoint now) const {
  const double seconds = std::chrono::duration<double>(now - connection.counted).count();
  return std::max(0.0, connection.ahead - seconds * static_cast<double>(kFloodTimes * calls_));
}

bool ConnectionPace::MustPause(const Host& host, TimePoint now) {
  const TimePoint::duration pause = now - host.taken;
  return pause < kPause || (pause < kMaxPause && now - host.counted < kQuiet);
}

void ConnectionPace::Forget(TimePoint now) {
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    std::erase_if(connections_, [&](const auto& entry) { return AheadAt(entry.second, now) == 0; });
    for (auto& [peer, connection] : connections_) {
      connection.calls = 0;
    }
    std::erase_if(hosts_, [&](const auto& entry) {
      const Host& host = entry.second;
      return CallsAt(host, now) == 0 && std::ranges::all_of(host.silent, [&](const Silent& one) {
               return now - one.taken >= kPause;
             });
    });
  }
}

void ConnectionPace::EndSilence(const std::string& peer) {
  if (hosts_.empty()) {  // as long as nobody connects
    return;
  }
  const auto host = hosts_.find(HostOf(peer));
  if (host != hosts_.end()) {
    std::erase_if(host->second.silent,
                  [port = PortOf(peer)](const Silent& one) { return one.port == port; });
  }
}

void ConnectionPace::set_end_connection(EndConnection end) {
  MutexLock lock(mutex_);
  end_connection_ = std::move(end);
}

void ConnectionPace::CountCall(const std::string& peer) {
  if (peer.starts_with(kUnixHost)) {
    return;
  }
  const TimePoint now = clock_();
  MutexLock lock(mutex_);
  Forget(now);
  if (connections_.size() >= kMaxConnections && !connections_.contains(peer)) {
    EndSilence(peer);
    return;
  }
  Connection& connection = connections_[peer];
  const int64_t calls = ++connection.calls;
  if (calls == 1) {
    EndSilence(peer);
  }
  CountFlood(peer, now, connection);
  if (calls <= free_calls_) {
    return;
  }
  const std::string name = HostOf(peer);
  if (hosts_.size() >= kMaxHosts && !hosts_.contains(name)) {
    return;
  }
  Host& host = hosts_[name];
  host.calls = std::min(CallsAt(host, now) + 1, kMaxTimes * static_cast<double>(calls_));
  host.counted = now;
}

void ConnectionPace::CountFlood(const std::string& peer, TimePoint now, Connection& connection) {
  connection.ahead = AheadAt(connection, now) + 1;
  connection.counted = now;
  const auto most = static_cast<double>(kFloodSeconds * kFloodTimes * calls_);
  if (connection.ahead > most && end_connection_ != nullptr &&
      !std::exchange(connection.is_ended, true)) {
    end_connection_(peer);
  }
}

void ConnectionPace::CountWrong(const std::string& peer) {
  MutexLock lock(mutex_);
  if (const auto connection = connections_.find(peer); connection != connections_.end()) {
    CountFlood(peer, clock_(), connection->second);
  }
}

void ConnectionPace::CountRequest(const std::string& peer) {
  MutexLock lock(mutex_);
  const auto connection = connections_.find(peer);
  if (connection == connections_.end()) {
    return;
  }
  const int64_t calls = connection->second.calls;
  connection->second.calls = std::max<int64_t>(0, calls - 1);  // maybe of a call of the last second
  connection->second.ahead = std::max(0.0, connection->second.ahead - 1);
  if (calls <= free_calls_) {
    return;
  }
  const auto host = hosts_.find(HostOf(peer));
  if (host != hosts_.end()) {
    host->second.calls = std::max(0.0, host->second.calls - 1);
  }
}

bool ConnectionPace::Take(const std::string& name, int port) {
  const TimePoint now = clock_();
  MutexLock lock(mutex_);
  Forget(now);
  if (name == kUnixHost || (hosts_.size() >= kMaxHosts && !hosts_.contains(name))) {
    return true;
  }
  Host& host = hosts_[name];
  std::erase_if(host.silent, [&](const Silent& one) { return now - one.taken >= kPause; });
  const double calls = CallsAt(host, now);
  const bool has_many_calls = calls > static_cast<double>(calls_);
  // A silent connection of such a host may have made many more calls, which gRPC has not delivered.
  const bool has_some_calls = calls > kSomeCalls * static_cast<double>(calls_);
  const auto silent = std::ranges::count_if(host.silent, [&](const Silent& one) {
    return now - one.taken < (has_some_calls ? kPause : kMaxSilence);
  });
  if (silent >= (has_some_calls ? 1 : kMaxSilent) || (has_many_calls && MustPause(host, now))) {
    return false;
  }
  host.taken = now;
  host.silent.push_back({port, now});
  return true;
}

}  // namespace attention
