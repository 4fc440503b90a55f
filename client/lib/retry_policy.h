// Decides which calls are retried, and when; client/README.md describes the policy.
#pragma once

#include <grpcpp/channel.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/runtime/mutex.h"

namespace attention {

/// The most attempts of a call; gRPC's own policy allows no more than 5.
inline constexpr int kMaxAttempts = 5;
/// The pause after the first failed attempt; it doubles with each further one.
inline constexpr absl::Duration kInitialBackoff = absl::Milliseconds(100);
/// The retry budget of a client. No call is repeated while half of it or less is left.
inline constexpr int kRetryTokens = 1000;

/// The URL of the status payload that has the value of the trailer grpc-retry-pushback-ms.
inline constexpr char kPushback[] = "grpc-retry-pushback-ms";

/// The methods that are retried ("package.Service/Method"). They change nothing on a server.
/// VerifyModel is left out, because it computes for long; Decode and ModelStreamInfer, because a
/// stream of actions cannot be repeated.
inline constexpr const char* kRepeatable[] = {"attention.v1.AttentionService/Attend",
                                              "attention.v1.AttentionService/AttendStream",
                                              "attention.v1.AttentionService/ListModels",
                                              "attention.v1.AttentionService/GetModel",
                                              "attention.v1.AttentionService/GetStatistics",
                                              "attention.v1.AttentionService/ListModelStates",
                                              "inference.GRPCInferenceService/ServerLive",
                                              "inference.GRPCInferenceService/ServerReady",
                                              "inference.GRPCInferenceService/ModelReady",
                                              "inference.GRPCInferenceService/ServerMetadata",
                                              "inference.GRPCInferenceService/ModelMetadata",
                                              "inference.GRPCInferenceService/ModelConfig",
                                              "inference.GRPCInferenceService/ModelStatistics",
                                              "inference.GRPCInferenceService/ModelInfer",
                                              "inference.GRPCInferenceService/RepositoryIndex",
                                              "grpc.health.v1.Health/Check"};

/// The retry budget of one client, which stops retries while most calls fail: they would only add
/// to the load. Thread-safe.
class RetryBudget {
 public:
  /// Counts an attempt: one that failed and may be repeated takes 1 from the budget, any other
  /// gives 1 back. Returns whether calls may be repeated.
  bool Count(bool may_be_repeated);

 private:
  Mutex mutex_;
  int tokens_ ABSL_GUARDED_BY(mutex_) = kRetryTokens;
};

/// The attempts of one call. `budget` outlives it.
class Attempts {
 public:
  /// Begins a call of `method` ("/package.Service/Method").
  Attempts(absl::string_view method, bool retries, absl::Duration timeout, RetryBudget& budget);

  /// Returns the time until the deadline, which all attempts share.
  absl::Duration remaining() const { return deadline_ - absl::Now(); }
  /// Returns whether the deadline has passed, or is about to: gRPC counts in milliseconds.
  bool timed_out() const { return remaining() < absl::Milliseconds(10); }

  /// Counts an attempt that ended with `status` before any message of the answer. If the call may
  /// be retried, waits for the due pause, in which `channel` connects again, and returns true.
  bool WaitAfter(const absl::Status& status, grpc::Channel& channel);

 private:
  std::optional<absl::Duration> PauseAfter(const absl::Status& status) const;

  const bool may_repeat_;
  const absl::Time deadline_;
  RetryBudget& budget_;
  int failed_ = 0;
};

}  // namespace attention
