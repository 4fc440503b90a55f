#include "server/services/calls/cancellation.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "server/scheduling/refusal.h"

namespace attention {
namespace {

// The most by which a client's rounding of its deadline is allowed for.
constexpr std::chrono::seconds kMaxRounding{1};

// Returns whether a call that began at `begin` and is cancelled now was cancelled because of its
// deadline.
// Its client ends it too, and a little earlier than the server's clock says: clients round the
// deadline upwards before they send it, by at most a hundredth. The server allows for a 64th, and
// for at most kMaxRounding.
bool IsCancelledByDeadline(const grpc::ServerContext& context, TimePoint begin) {
  const TimePoint now = std::chrono::steady_clock::now();
  const TimePoint deadline = SteadyDeadline(context, now);
  if (deadline == TimePoint::max()) {
    return false;
  }
  return deadline - now <= std::min<TimePoint::duration>((deadline - begin) / 64, kMaxRounding);
}

}  // namespace

void Cancellation::Set(const grpc::ServerContext& context) {
  if (!is_set_ && IsCancelledByDeadline(context, arrival_)) {
    is_past_deadline_ = true;
  }
  is_set_ = true;
}

absl::Status Cancellation::Explain(const absl::Status& status) const {
  if (!is_past_deadline_ || !absl::IsCancelled(status)) {
    return status;
  }
  constexpr char kText[] = "the deadline passed before the answer was sent";
  const std::optional<Refusal> refusal = RefusalOf(status);
  return refusal.has_value() ? Refuse(absl::StatusCode::kDeadlineExceeded, kText, *refusal)
                             : absl::DeadlineExceededError(kText);
}

}  // namespace attention
