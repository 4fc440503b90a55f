// A limit for calls that need no token and stay open as long as their caller likes: Watch and
// reflection.
#pragma once

#include <grpcpp/server_context.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/scheduling/fair_budget.h"

namespace attention {

/// Counts these streams, for all listeners together. Thread-safe.
class OpenStreams {
 public:
  static constexpr int64_t kMax = 4096;
  using Slot = std::unique_ptr<FairBudget::Part>;

  /// Takes a slot, which the stream keeps while it is open. RESOURCE_EXHAUSTED, with a time to
  /// retry, when the caller's account has used its share. The error names `rpc`.
  absl::StatusOr<Slot> TakeSlot(const grpc::ServerContext& context, std::string_view rpc);

  int64_t count() const { return slots_.used(); }

 private:
  FairBudget slots_{kMax};
};

}  // namespace attention
