#include "client/lib/retry_policy.h"

#include <algorithm>
#include <iterator>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace attention {

bool RetryBudget::Count(bool may_be_repeated) {
  MutexLock lock(mutex_);
  tokens_ = std::clamp(tokens_ + (may_be_repeated ? -1 : 1), 0, kRetryTokens);
  return tokens_ > kRetryTokens / 2;
}

Attempts::Attempts(absl::string_view method, bool retries, absl::Duration timeout,
                   RetryBudget& budget)
    : may_repeat_(retries && std::find(std::begin(kRepeatable), std::end(kRepeatable),
                                       absl::StripPrefix(method, "/")) != std::end(kRepeatable)),
      deadline_(absl::Now() + timeout),
      budget_(budget) {}

bool Attempts::WaitAfter(const absl::Status& status, grpc::Channel& channel) {
  const std::optional<absl::Duration> pause = PauseAfter(status);
  const bool allows = budget_.Count(/*may_be_repeated=*/pause.has_value());
  failed_ += 1;
  if (!pause.has_value() || !allows || failed_ >= kMaxAttempts || *pause >= remaining()) {
    return false;
  }
  // The pause is spent in gRPC, which makes connections only while a thread waits in it.
  const auto end = absl::ToChronoTime(absl::Now() + *pause);
  while (channel.WaitForStateChange(channel.GetState(/*try_to_connect=*/true), end)) {
  }
  return true;
}

std::optional<absl::Duration> Attempts::PauseAfter(const absl::Status& status) const {
  const bool is_unavailable = absl::IsUnavailable(status);
  if (!may_repeat_ || (!is_unavailable && !absl::IsResourceExhausted(status))) {
    return std::nullopt;
  }
  if (const auto pushback = status.GetPayload(kPushback); pushback.has_value()) {
    int64_t ms = -1;
    return absl::SimpleAtoi(std::string(*pushback), &ms) && ms >= 0
               ? std::make_optional(absl::Milliseconds(ms))
               : std::nullopt;
  }
  if (!is_unavailable) {
    return std::nullopt;
  }
  thread_local std::minstd_rand random{std::random_device{}()};
  return kInitialBackoff * (1 << failed_) *
         std::uniform_real_distribution<double>(0.8, 1.2)(random);
}

}  // namespace attention
