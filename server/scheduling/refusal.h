// The reason of a refusal, and when to retry, as data besides its text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace attention {

/// The reason why a request was refused that another server, or this server later, might answer.
enum class RefusalReason {
  /// The request exceeds a limit of size or number.
  kLimit,
  kQueueRequests,
  kQueueBytes,
  kQueueWait,
  kReplyBytes,
  kTenantShare,
  kDeadline,
  /// The server drains, or the model is being loaded.
  kUnavailable,
};
inline constexpr int kNumRefusalReasons = static_cast<int>(RefusalReason::kUnavailable) + 1;

/// Returns "limit", "queue_requests", "queue_bytes", "queue_wait", "reply_bytes", "tenant_share",
/// "deadline" or "unavailable".
std::string_view Name(RefusalReason reason);

/// The data of a refusal. Times in milliseconds.
struct Refusal {
  RefusalReason reason = RefusalReason::kLimit;
  /// The time after which the caller may retry.
  int64_t retry_after_ms = 0;
  /// The time that the request would have waited.
  int64_t estimated_wait_ms = 0;
};

/// Returns a status that carries `refusal`.
absl::Status Refuse(absl::StatusCode code, const std::string& text, const Refusal& refusal);

/// Returns what callers of a server that drains are told: UNAVAILABLE.
absl::Status Draining();

/// Returns null when the status carries none.
std::optional<Refusal> RefusalOf(const absl::Status& status);

/// Returns the reason of RESOURCE_EXHAUSTED and UNAVAILABLE, whether they carry a refusal or not,
/// and of DEADLINE_EXCEEDED that carries one: a deadline that passes while the request is received
/// or computed is no refusal. Null for all other codes.
std::optional<RefusalReason> ReasonOf(const absl::Status& status);

}  // namespace attention
