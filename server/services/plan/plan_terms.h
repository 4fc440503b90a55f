// The terms on which a large request is planned.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/codec/envelope.h"
#include "proto/codec/envelope_size.h"
#include "server/scheduling/executor.h"
#include "server/scheduling/request_class.h"
#include "server/scheduling/time_point.h"

namespace attention {

/// A completion thread plans a message, or encodes a reply, that costs at most this; a side thread
/// (Executor::side) does the others. The cost is the bytes besides the tensors; bytes of texts to
/// tokenize count kTextWeight times.
inline constexpr int64_t kSmallPlanBytes = int64_t{16} << 10;
inline constexpr int64_t kSmallReplyBytes = int64_t{64} << 10;

/// Returns the cost of planning a message of type M: 0 if it has at most kSmallPlanBytes besides
/// its tensors; otherwise its whole size, but at least kSmallPlanBytes + 1.
template <typename M>
int64_t EnvelopeCost(const grpc::ByteBuffer& wire) {
  return HasLargeEnvelope(wire, EnvelopeFieldsOf<M>(), kSmallPlanBytes)
             ? std::max(static_cast<int64_t>(wire.Length()), kSmallPlanBytes + 1)
             : 0;
}

/// Returns the cost of inflating a compressed message of at most `max_bytes`; 0 for any other
/// message.
int64_t InflatingCost(const grpc::ByteBuffer& wire, int64_t max_bytes);

/// The terms. Null functions: there are none.
struct PlanTerms {
  /// Planning calls this between the steps of long work. An error ends the plan.
  std::function<absl::Status()> check = nullptr;
  /// Planning calls this before it allocates much memory. An error ends the plan.
  std::function<absl::Status(int64_t bytes)> reserve = nullptr;

  /// Returns a function for the steps of inflating or decoding a message. It borrows from this.
  BeginDecoding Begin() const {
    return [this](int64_t bytes) {
      const absl::Status status = Check();
      return status.ok() && bytes > 0 ? Reserve(bytes) : status;
    };
  }
  absl::Status Check() const { return check == nullptr ? absl::OkStatus() : check(); }
  absl::Status Reserve(int64_t bytes) const {
    return reserve == nullptr ? absl::OkStatus() : reserve(bytes);
  }
};

/// Returns the inflated message, of at most `max_bytes` (--max-message-bytes), with its memory
/// reserved on the terms; other messages as they are. Errors of Inflate and of the terms.
absl::StatusOr<grpc::ByteBuffer> InflateRequest(const grpc::ByteBuffer& wire, int64_t max_bytes,
                                                const PlanTerms& terms);

/// The caller that waits for a plan.
struct PlanCaller {
  /// The class of the request, for the scheduler.
  RequestClass request_class;
  TimePoint deadline = TimePoint::max();
  std::function<bool()> is_cancelled;
};

/// The terms of a request that a side thread plans: planning continues while the caller waits, lets
/// smaller tasks pass, and holds its reservations in the queue's budget until this is destroyed.
class PlanAccount {
 public:
  /// The executor outlives this.
  PlanAccount(Executor& executor, PlanCaller caller)
      : executor_(executor), caller_(std::move(caller)) {}
  PlanAccount(const PlanAccount&) = delete;
  PlanAccount& operator=(const PlanAccount&) = delete;

  /// Returns the terms, which borrow from this.
  PlanTerms terms();

 private:
  absl::Status Check() const;
  absl::Status Reserve(int64_t bytes);

  Executor& executor_;
  const PlanCaller caller_;
  std::vector<std::unique_ptr<HeldBytes>> held_;
};

}  // namespace attention
