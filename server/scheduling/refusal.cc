#include "server/scheduling/refusal.h"

#include <cstring>

namespace attention {
namespace {

constexpr char kPayload[] = "attend/refusal";

}  // namespace

absl::Status Refuse(absl::StatusCode code, const std::string& text, const Refusal& refusal) {
  absl::Status status(code, text);
  status.SetPayload(kPayload, absl::Cord(absl::string_view(reinterpret_cast<const char*>(&refusal),
                                                           sizeof(refusal))));
  return status;
}

absl::Status Draining() { return absl::UnavailableError("the server is draining"); }

std::optional<Refusal> RefusalOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) {
    return std::nullopt;
  }
  Refusal refusal;
  const std::string bytes(*payload);
  std::memcpy(&refusal, bytes.data(), sizeof(refusal));
  return refusal;
}

std::string_view Name(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kQueueRequests:
      return "queue_requests";
    case RefusalReason::kQueueBytes:
      return "queue_bytes";
    case RefusalReason::kQueueWait:
      return "queue_wait";
    case RefusalReason::kReplyBytes:
      return "reply_bytes";
    case RefusalReason::kTenantShare:
      return "tenant_share";
    case RefusalReason::kDeadline:
      return "deadline";
    case RefusalReason::kUnavailable:
      return "unavailable";
    default:
      return "limit";
  }
}

std::optional<RefusalReason> ReasonOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return RefusalOf(status).value_or(Refusal()).reason;
    case absl::StatusCode::kDeadlineExceeded:
      return RefusalOf(status).has_value() ? std::optional(RefusalReason::kDeadline) : std::nullopt;
    case absl::StatusCode::kUnavailable:
      return RefusalReason::kUnavailable;
    default:
      return std::nullopt;
  }
}

}  // namespace attention
