#include "server/services/open_inference/infer_call.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/runtime/status_macros.h"
#include "server/services/open_inference/infer_reply.h"

namespace attention {

InferLimits InferEnvironment::LimitsOf(const Caller& caller, const PlanTerms& terms) const {
  return {.models = calls.models,
          .caller = caller,
          .shared_memory = shared_memory,
          .reply = calls.unary_limit,
          .terms = terms};
}

void ApplyParameters(const InferParameters& parameters, TimePoint arrival, CallMetadata& metadata,
                     TimePoint& deadline) {
  if (parameters.priority > 0) {
    SetPriority(parameters.priority == 1   ? Priority::kHigh
                : parameters.priority == 2 ? Priority::kNormal
                                           : Priority::kLow,
                metadata);
  }
  // A deadline that the clock cannot represent counts as none.
  using std::chrono::microseconds;
  const auto longest = std::chrono::duration_cast<microseconds>(TimePoint::max() - arrival);
  if (parameters.timeout_us > 0 && parameters.timeout_us < longest.count()) {
    deadline = std::min(deadline, arrival + microseconds(parameters.timeout_us));
  }
}

void InferCall::Post(const InferEnvironment& environment) {
  static const int method = OpenInferenceAsyncService::IndexOf("ModelInfer");
  const auto call = std::make_shared<InferCall>(environment);
  call->Await(environment.service, method);
}

int64_t InferCall::PlanningCost(const grpc::ByteBuffer& request) const {
  return InferPlanningCost(request, infer_.max_shared_bytes());
}

absl::StatusOr<AttendPlan> InferCall::Plan(const grpc::ByteBuffer& request,
                                           const PlanTerms& terms) {
  InferIdentity identity;
  absl::StatusOr<InferPlan> plan = ReadInfer(request, infer_.LimitsOf(caller(), terms), identity);
  SetModel(identity.model, identity.version);
  RETURN_IF_ERROR(plan.status());
  answer_ = std::move(plan->answer);
  parameters_ = plan->parameters;
  return std::move(plan->attend);
}

void InferCall::Refine(TimePoint arrival, CallMetadata& metadata, TimePoint& deadline) {
  ApplyParameters(parameters_, arrival, metadata, deadline);
}

void InferCall::Finish(const std::shared_ptr<const AttendReply>& reply, const absl::Status& status,
                       const BatchStats& stats) {
  SetComputed(stats);
  answer_.cached_tokens = stats.cached_tokens;
  if (!status.ok()) {
    OnFailure(status);
    return;
  }
  const absl::Status sent = ContainVoid("sending the answer", [&] {
    if (NeedsCopies(answer_)) {
      RunOnSideThread(reply->size_bytes(), [this, reply] { SendReply(*reply); });
    } else {
      SendReply(*reply);
    }
  });
  if (!sent.ok()) {
    OnFailure(sent);
  }
}

void InferCall::SendReply(const AttendReply& reply) {
  const absl::StatusOr<grpc::ByteBuffer> message = EncodeInfer(answer_, reply);
  if (message.ok()) {
    EndWith(*message);
  } else {
    EndWith(message.status());
  }
}

}  // namespace attention
