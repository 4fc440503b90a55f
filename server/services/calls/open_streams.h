// A bound on the calls that need no token and stay open for as long as their caller likes: Watch
// and reflection.
#pragma once

#include <grpcpp/server_context.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/scheduling/fair_budget.h"

namespace attention {

/// Of all listeners; thread-safe.
class OpenStreams {
 public:
  static constexpr int64_t kDefaultMax = 4096;
  using Place = std::unique_ptr<FairBudget::Part>;

  explicit OpenStreams(int64_t max = kDefaultMax) : places_(max) {}

  /// A place for as long as the stream is open. RESOURCE_EXHAUSTED, with a time to try again, when
  /// the caller's account has as many open as it leaves free; `rpc` is what the error calls it.
  absl::StatusOr<Place> Enter(const grpc::ServerContext& context, std::string_view rpc);

  int64_t count() const { return places_.used(); }

 private:
  FairBudget places_;
};

}  // namespace attention
