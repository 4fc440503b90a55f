// Posts bodies to one URL.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace attention {

/// Posts with libcurl, which supports what environments differ in: TLS with the system's
/// authorities, proxies, IPv6. Used by one thread; Abort may be called from any thread.
class HttpPoster {
 public:
  /// The maximum time of a connection attempt, and of a whole exchange.
  static constexpr absl::Duration kConnectTimeout = absl::Seconds(3);
  static constexpr absl::Duration kTimeout = absl::Seconds(10);

  /// INVALID_ARGUMENT for a text that is no URL of http or https with a host.
  static absl::Status CheckUrl(const std::string& url);
  /// Makes a poster. The same error as CheckUrl.
  static absl::StatusOr<std::unique_ptr<HttpPoster>> Create(const std::string& url);
  ~HttpPoster();
  HttpPoster(const HttpPoster&) = delete;
  HttpPoster& operator=(const HttpPoster&) = delete;

  struct Answer {
    int status = 0;
    /// The pause that the server asks for with Retry-After; zero: none.
    absl::Duration retry_after = absl::ZeroDuration();
    /// At most the first kMaxBody bytes of the body.
    std::string body = {};
  };
  static constexpr size_t kMaxBody = 16384;

  /// Posts the body. `headers` are "Name: value". Redirects are not followed, but returned.
  /// UNAVAILABLE when there is no answer.
  absl::StatusOr<Answer> Post(const std::string& body, const std::vector<std::string>& headers);

  /// Ends the current post soon, and later ones too.
  void Abort() { is_aborted_ = true; }

 private:
  struct State;
  explicit HttpPoster(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace attention
