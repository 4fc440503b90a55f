#include "server/services/plan/plan_terms.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/runtime/status_macros.h"
#include "proto/codec/inflate.h"

namespace attention {

int64_t InflatingCost(const grpc::ByteBuffer& wire, int64_t max_bytes) {
  return IsCompressed(wire) ? std::min(MaxInflatedBytes(wire), max_bytes) : 0;
}

absl::StatusOr<grpc::ByteBuffer> InflateRequest(const grpc::ByteBuffer& wire, int64_t max_bytes,
                                                const PlanTerms& terms) {
  if (!IsCompressed(wire)) {
    return wire;
  }
  return Inflate(wire, {max_bytes, "--max-message-bytes", terms.Begin()});
}

PlanTerms PlanAccount::terms() {
  return {.check = [this] { return Check(); },
          .reserve = [this](int64_t bytes) { return Reserve(bytes); }};
}

absl::Status PlanAccount::Check() const {
  executor_.side().Yield();
  if (caller_.is_cancelled()) {
    return absl::CancelledError("the caller cancelled while the request was read");
  }
  return caller_.deadline > std::chrono::steady_clock::now()
             ? absl::OkStatus()
             : absl::DeadlineExceededError("the deadline passed while the request was read");
}

absl::Status PlanAccount::Reserve(int64_t bytes) {
  ASSIGN_OR_RETURN(std::unique_ptr<HeldBytes> held,
                   executor_.Reserve(caller_.request_class, bytes));
  held_.push_back(std::move(held));
  return absl::OkStatus();
}

}  // namespace attention
