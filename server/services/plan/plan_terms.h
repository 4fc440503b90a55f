// On what terms a request is planned: what large ones ask while they are.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/codec/envelope_size.h"
#include "server/scheduling/executor.h"
#include "server/scheduling/request_class.h"
#include "server/scheduling/time_point.h"

namespace attention {

/// Planning that takes more, in bytes of the message beside its tensors, is left to the side
/// threads (Executor::side); so is encoding of more bytes.
inline constexpr int64_t kSmallPlanBytes = int64_t{16} << 10;
inline constexpr int64_t kSmallReplyBytes = int64_t{64} << 10;

/// What it takes to plan a message of type M, whose tensors are not looked at; 0 when that is
/// little.
template <typename M>
int64_t EnvelopeCost(const grpc::ByteBuffer& wire) {
  return HasLargeEnvelope(wire, PayloadFieldsOf<M>(), kSmallPlanBytes)
             ? static_cast<int64_t>(wire.Length())
             : 0;
}

/// What it takes to inflate a message that its sender has compressed, which may have `max_bytes`; 0
/// for any other.
int64_t InflatingCost(const grpc::ByteBuffer& wire, int64_t max_bytes);

/// Null functions: there are no terms.
struct PlanTerms {
  /// Asked between the parts of what takes long. An error ends it, and is the plan's.
  std::function<absl::Status()> check = nullptr;
  /// Asked before much memory is taken; an error is the plan's.
  std::function<absl::Status(int64_t bytes)> reserve = nullptr;

  absl::Status Check() const { return check == nullptr ? absl::OkStatus() : check(); }
  absl::Status Reserve(int64_t bytes) const {
    return reserve == nullptr ? absl::OkStatus() : reserve(bytes);
  }
};

/// What a compressed message says, of at most `max_bytes` (--max-message-bytes), its memory
/// reserved on the terms; any other one as it is. Errors of Inflate and of the terms.
absl::StatusOr<grpc::ByteBuffer> InflateRequest(const grpc::ByteBuffer& wire, int64_t max_bytes,
                                                const PlanTerms& terms);

/// Whoever waits for a plan.
struct PlanCaller {
  /// As the scheduler knows them.
  RequestClass request_class;
  TimePoint deadline = TimePoint::max();
  std::function<bool()> is_cancelled;
};

/// The terms of a request that one of these threads plans: it goes on while its caller waits, lets
/// smaller ones pass, and what it reserves is of the queue's budget until this is destroyed.
class PlanAccount {
 public:
  /// The executor outlives this.
  PlanAccount(Executor& executor, PlanCaller caller)
      : executor_(executor), caller_(std::move(caller)) {}
  PlanAccount(const PlanAccount&) = delete;
  PlanAccount& operator=(const PlanAccount&) = delete;

  /// Borrow from this.
  PlanTerms terms();

 private:
  absl::Status Check() const;
  absl::Status Reserve(int64_t bytes);

  Executor& executor_;
  const PlanCaller caller_;
  std::vector<std::unique_ptr<HeldBytes>> held_;
};

}  // namespace attention
