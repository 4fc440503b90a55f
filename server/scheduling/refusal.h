// What a refusal tells beside its text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace attention {

/// Why a request was refused that might have been answered at another time, or by another server.
enum class RefusalReason {
  /// Larger than something may be, or one more than there may be.
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

/// "limit", "queue_requests", "queue_bytes", "queue_wait", "reply_bytes", "tenant_share",
/// "deadline", "unavailable".
std::string_view Name(RefusalReason reason);

/// Times in milliseconds.
struct Refusal {
  RefusalReason reason = RefusalReason::kLimit;
  /// When it is worth trying again.
  int64_t retry_after_ms = 0;
  /// How long the request would have waited.
  int64_t estimated_wait_ms = 0;
};

/// A status that carries `refusal`.
absl::Status Refuse(absl::StatusCode code, const std::string& text, const Refusal& refusal);

/// Null when the status carries none.
std::optional<Refusal> RefusalOf(const absl::Status& status);

/// Of RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED and UNAVAILABLE, whether they carry a refusal or not;
/// null for all else.
std::optional<RefusalReason> ReasonOf(const absl::Status& status);

}  // namespace attention
