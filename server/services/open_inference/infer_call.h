// ModelInfer, and its common parts with ModelStreamInfer.
#pragma once

#include <cstdint>
#include <memory>

#include "proto/inference/open_inference.grpc.pb.h"
#include "server/services/calls/attend_call.h"
#include "server/services/calls/headers_first.h"
#include "server/services/open_inference/infer_plan.h"

namespace attention {

using OpenInferenceAsyncService = HeadersFirst<inference::GRPCInferenceService>;

/// The environment of all calls of the service; outlives them.
struct InferEnvironment {
  OpenInferenceAsyncService& service;
  CallEnvironment calls;
  /// Null: shared memory is disabled.
  const SharedMemory* shared_memory = nullptr;

  /// Returns the most shared memory that a request may name; 0: none.
  int64_t max_shared_bytes() const {
    return shared_memory == nullptr ? 0 : calls.unary_limit.max_bytes;
  }
  /// Returns the limits for requests of both methods.
  InferLimits LimitsOf(const Caller& caller, const PlanTerms& terms) const;
};

/// Applies the protocol's priority (1: high; 2: normal; 3 and more: low; 0: as the metadata say),
/// and the earlier of the two deadlines; `arrival` is the request's.
void ApplyParameters(const InferParameters& parameters, TimePoint arrival, CallMetadata& metadata,
                     TimePoint& deadline);

class InferCall final : public AttendCall {
 public:
  /// Waits for one call; each call that arrives posts its successor.
  static void Post(const InferEnvironment& environment);
  explicit InferCall(const InferEnvironment& environment)
      : AttendCall(environment.calls, "ModelInfer", /*wants_rows=*/false), infer_(environment) {}

  void OnRows(const std::shared_ptr<const AttendReply>&, const RowRange&) override {}
  void Finish(const std::shared_ptr<const AttendReply>& reply, const absl::Status& status,
              const BatchStats& stats) override;

 private:
  void PostNext() override { Post(infer_); }
  int64_t PlanningCost(const grpc::ByteBuffer& request) const override;
  absl::StatusOr<AttendPlan> Plan(const grpc::ByteBuffer& request, const PlanTerms& terms) override;
  void Refine(TimePoint arrival, CallMetadata& metadata, TimePoint& deadline) override;
  void SendReply(const AttendReply& reply);

  const InferEnvironment& infer_;
  InferAnswer answer_;
  InferParameters parameters_;
};

}  // namespace attention
