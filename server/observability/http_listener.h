// A small HTTP server for monitoring: GET and HEAD of a few paths.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"

namespace attention {

struct HttpPage {
  std::string content_type;
  /// Makes the body; called by the listener's thread, once for all requests that wait for it. A
  /// request that arrives within a second, while the answer is still being sent to another, gets
  /// that answer.
  std::function<std::string()> body;
};

/// Serves pages on one thread. A slow connection costs its buffers for at most kPatience. At
/// kMaxConnections a connection is closed for a new one: the oldest of the host that has most of
/// them, so that no host can keep others out. A connection ends after its answer.
class HttpListener {
 public:
  using Pages = std::map<std::string, HttpPage>;  // by path, "/metrics"

  static constexpr int kMaxConnections = 64;
  static constexpr size_t kMaxRequestBytes = 8192;
  static constexpr auto kPatience = std::chrono::seconds(5);

  /// Listens on HOST:PORT ([HOST]:PORT for an IPv6 address; port 0: any free port) or unix:/PATH.
  /// INVALID_ARGUMENT for a text that is no address; UNAVAILABLE for an address that cannot be
  /// listened on.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(const std::string& address,
                                                             Pages pages);
  /// Removes a unix socket from the file system: afterwards another server may have its path.
  /// Called by one thread.
  void RemoveSocket();
  /// Closes all connections.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  /// Returns the address as given, with the chosen port in the place of port 0.
  const std::string& address() const { return address_; }

 private:
  class Loop;
  HttpListener(std::string address, std::unique_ptr<Loop> loop);

  const std::string address_;
  const std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace attention
