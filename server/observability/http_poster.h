// POST of a body to one URL.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace attention {

/// By libcurl, which does what every environment has of its own: TLS with the system's authorities,
/// proxies, IPv6. One caller; Abort from any thread.
class HttpPoster {
 public:
  /// Of a connection, and of a whole exchange.
  static constexpr absl::Duration kConnectTimeout = absl::Seconds(3);
  static constexpr absl::Duration kTimeout = absl::Seconds(10);

  /// INVALID_ARGUMENT for what is no URL of http or https.
  static absl::StatusOr<std::unique_ptr<HttpPoster>> Create(const std::string& url);
  ~HttpPoster();
  HttpPoster(const HttpPoster&) = delete;
  HttpPoster& operator=(const HttpPoster&) = delete;

  struct Answer {
    int status = 0;
    /// What the server asks for by Retry-After; zero: nothing.
    absl::Duration retry_after = absl::ZeroDuration();
    /// At most its first kMaxBody bytes.
    std::string body = {};
  };
  static constexpr size_t kMaxBody = 16384;

  /// Redirects are answers, and not followed. UNAVAILABLE when there is no answer.
  /// `headers` are "Name: value".
  absl::StatusOr<Answer> Post(const std::string& body, const std::vector<std::string>& headers);

  /// The post that is under way ends soon, and so do later ones.
  void Abort() { is_aborted_ = true; }

 private:
  struct State;
  explicit HttpPoster(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace attention
