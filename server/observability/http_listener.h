// A small HTTP server for pages that monitoring reads: GET and HEAD of a few paths, nothing else.
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
  /// Called for each request, by the listener's thread.
  std::function<std::string()> body;
};

/// One thread, whatever clients do: a connection that is slow to ask, or to take its answer, costs
/// its buffer for at most kPatience, and of kMaxConnections the oldest makes room for a new one, so
/// that nobody can keep others out by holding connections. Each answer ends its connection.
class HttpListener {
 public:
  using Pages = std::map<std::string, HttpPage>;  // by path, "/metrics"

  static constexpr int kMaxConnections = 64;
  static constexpr size_t kMaxRequestBytes = 8192;
  static constexpr auto kPatience = std::chrono::seconds(5);

  /// Listens on HOST:PORT ([HOST]:PORT for an IPv6 address; port 0: any free one). INVALID_ARGUMENT
  /// for what is no such address; UNAVAILABLE for one that cannot be listened on.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(const std::string& address,
                                                             Pages pages);
  /// Closes all connections.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  /// As given, with the port that was chosen for a port 0.
  const std::string& address() const { return address_; }

 private:
  class Loop;
  HttpListener(std::string address, std::unique_ptr<Loop> loop);

  const std::string address_;
  const std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace attention
