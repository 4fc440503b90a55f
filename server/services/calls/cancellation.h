// Whether the client of a call is gone.
#pragma once

#include <grpcpp/server_context.h>

#include <atomic>

#include "absl/status/status.h"
#include "server/services/calls/call_metadata.h"

namespace attention {

/// Whether the client of a call is gone, and whether it left because of the deadline. Any thread,
/// after Begin. Nothing throws.
class Cancellation {
 public:
  /// Sets when the call began. Called once, first.
  void Begin(TimePoint arrival) { arrival_ = arrival; }
  /// Notes that the client is gone. Only the first call counts.
  void Set(const grpc::ServerContext& context);
  bool is_set() const { return is_set_; }
  /// Returns the status to record for a request of the call: after the deadline, CANCELLED becomes
  /// DEADLINE_EXCEEDED, with its Refusal if it carries one; any other status stays.
  absl::Status Explain(const absl::Status& status) const;

 private:
  TimePoint arrival_;
  std::atomic<bool> is_past_deadline_ = false;  // set before is_set_
  std::atomic<bool> is_set_ = false;
};

}  // namespace attention
