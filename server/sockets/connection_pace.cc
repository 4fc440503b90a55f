#include "server/sockets/connection_pace.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "server/sockets/peer_host.h"

namespace attention {
namespace {

// Calls beyond this multiple of the permitted ones are not counted, so that a host that stops is
// free again after a second.
constexpr double kMaxTimes = 2;

}  // namespace

double ConnectionPace::CallsAt(const Host& host, TimePoint now) const {
  const double seconds = std::chrono::duration<double>(now - host.counted).count();
  return std::max(0.0, host.calls - seconds * static_cast<double>(calls_));
}

void ConnectionPace::Forget(TimePoint now) {
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    connections_.clear();
    std::erase_if(hosts_, [&](const auto& entry) { return CallsAt(entry.second, now) == 0; });
  }
}

void ConnectionPace::CountCall(const std::string& peer) {
  if (absl::StartsWith(peer, "unix")) {
    return;
  }
  const TimePoint now = clock_();
  MutexLock lock(mutex_);
  Forget(now);
  if (connections_.size() >= kMaxConnections && !connections_.contains(peer)) {
    return;
  }
  if (++connections_[peer] <= free_calls_) {
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

void ConnectionPace::CountRequest(const std::string& peer) {
  MutexLock lock(mutex_);
  const auto connection = connections_.find(peer);
  if (connection == connections_.end() || connection->second-- <= free_calls_) {
    return;
  }
  const auto host = hosts_.find(HostOf(peer));
  if (host != hosts_.end()) {
    host->second.calls = std::max(0.0, host->second.calls - 1);
  }
}

bool ConnectionPace::Take(const std::string& host) {
  const TimePoint now = clock_();
  MutexLock lock(mutex_);
  const auto found = hosts_.find(host);
  if (found == hosts_.end() || CallsAt(found->second, now) <= static_cast<double>(calls_)) {
    return true;
  }
  if (now - found->second.taken < kPause) {
    return false;
  }
  found->second.taken = now;
  return true;
}

}  // namespace attention
