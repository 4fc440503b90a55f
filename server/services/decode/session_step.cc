#include "server/services/decode/session_step.h"

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/prefixed.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"
#include "server/services/plan/field_error.h"

namespace attention {
namespace {

constexpr int64_t kMaxTopLogits = 1024;

absl::Status CheckInput(const v1::DecodeStep& step, const SessionPlan& plan) {
  if (step.input_case() == v1::DecodeStep::INPUT_NOT_SET) {
    return absl::InvalidArgumentError(
        "step.input: expected hidden_states, token_ids, text or query_key_value, found none of "
        "them");
  }
  const bool is_without_model = plan.target.model == nullptr;
  if (step.has_query_key_value() != is_without_model) {
    return absl::InvalidArgumentError(
        is_without_model
            ? "step.input: expected query_key_value in a session without a model, found "
              "another input"
            : "step.input: expected hidden_states, token_ids or text in a session of a model, "
              "found query_key_value");
  }
  return absl::OkStatus();
}

absl::Status CheckHeads(const BatchKey& step, const SessionPlan& plan) {
  if (plan.target.model != nullptr) {
    return absl::OkStatus();
  }
  const v1::AttentionHeads& h = plan.heads;
  const auto text = [](int64_t heads, int64_t kv_heads, int64_t dim, int64_t value_dim,
                       v1::DataType dtype) {
    return absl::StrCat(heads, " query heads and ", kv_heads, " key heads of ", dim, ", values of ",
                        value_dim, ", ", v1::DataType_Name(dtype));
  };
  const std::string expected =
      text(h.num_heads(), h.num_kv_heads(), h.head_dim(), h.value_head_dim(), h.dtype());
  const std::string found = text(step.num_heads, step.num_kv_heads, step.head_dim,
                                 step.value_head_dim, ToWire(step.dtype));
  return expected == found
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat("step.query_key_value: expected ", expected,
                                                       " as the session has, found ", found));
}

bool HasLogits(const SessionTarget& target) {
  return target.model != nullptr && !target.layer.has_value() && target.model->info().has_logits;
}

// Refuses pooled outputs, since the sequence of a session still grows, and logits where there are
// none.
absl::Status CheckOutput(v1::ModelOutput output, bool has_logits) {
  const bool is_pooled = output == v1::MEAN_POOLED || output == v1::CLS_POOLED;
  const bool is_logits = output == v1::LOGITS || output == v1::LAST_LOGITS;
  if (!is_pooled && (!is_logits || has_logits)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("step.model_output: expected LAST_HIDDEN_STATES",
                   has_logits ? ", LOGITS or LAST_LOGITS" : " in a session without logits",
                   ", found ", v1::ModelOutput_Name(output)));
}

absl::Status CheckStep(const v1::DecodeStep& step, const SessionPlan& plan) {
  RETURN_IF_ERROR(CheckInput(step, plan));
  RETURN_IF_ERROR(CheckOutput(step.model_output(), HasLogits(plan.target)));
  if (step.top_logits() < 0 || step.top_logits() > kMaxTopLogits) {
    return absl::InvalidArgumentError(absl::StrCat("step.top_logits: expected 0 to ", kMaxTopLogits,
                                                   ", found ", step.top_logits()));
  }
  if (step.top_logits() > 0 && step.no_output()) {
    return absl::InvalidArgumentError(
        absl::StrCat("step.top_logits: expected 0 with no_output, found ", step.top_logits()));
  }
  if (step.top_logits() > 0 && !HasLogits(plan.target)) {
    return absl::InvalidArgumentError(
        absl::StrCat("step.top_logits: expected 0 in a session without logits (a layer, or a model "
                     "without Model.has_logits), found ",
                     step.top_logits()));
  }
  return absl::OkStatus();
}

// Leaves out what the answer to the step will not have.
void SetOutputs(const v1::DecodeStep& step, bool has_logits, v1::AttendRequest& request) {
  const bool has_output = step.top_logits() == 0 && !step.no_output();
  if (!has_output && request.has_options()) {
    request.mutable_options()->clear_return_weights();
    request.mutable_options()->clear_weights_top_k();
    request.mutable_options()->clear_return_log_sum_exp();
  }
  if (step.top_logits() > 0) {
    request.set_model_output(v1::LAST_LOGITS);
  } else if (has_output || !has_logits) {
    request.set_model_output(step.model_output());
  }
}

// Leaves out query rows whose output nobody gets. Without a model, keys and values do not depend on
// them, so that no attention has to be computed.
void DropQuery(const v1::DecodeStep& step, AttendPlan& plan) {
  PlannedSequence& sequence = plan.sequences[0];
  if (step.no_output() && plan.model == nullptr && sequence.key.rows > 0) {
    sequence.query.rows = sequence.output.rows = 0;
    plan.output_shape[plan.output_shape.size() - 3] = 0;  // heads and their width follow the rows
  }
}

// Returns the step as a request of one sequence.
Received<v1::AttendRequest> RequestOf(const ReceivedStep& received, const SessionPlan& session) {
  const v1::DecodeStep& step = received.step;
  v1::AttendRequest request = session.step;
  switch (step.input_case()) {
    case v1::DecodeStep::kHiddenStates:
      *request.mutable_hidden_states() = step.hidden_states();
      break;
    case v1::DecodeStep::kTokenIds:
      *request.mutable_token_ids() = step.token_ids();
      break;
    case v1::DecodeStep::kText:
      *request.mutable_text() = step.text();
      break;
    case v1::DecodeStep::kQueryKeyValue:
      *request.mutable_query_key_value() = step.query_key_value();
      break;
    default:
      break;
  }
  SetOutputs(step, HasLogits(session.target), request);
  return {std::move(request), received.bytes};
}

}  // namespace

absl::StatusOr<AttendPlan> PlanSessionStep(const ReceivedStep& received, const SessionPlan& session,
                                           SessionSequence& sequence, const StepTerms& terms) {
  RETURN_IF_ERROR(CheckStep(received.step, session));
  // Without an output and a model there is no reply whose size could matter: see DropQuery.
  const bool has_reply = !received.step.no_output() || session.target.model != nullptr;
  const ReplyLimit no_limit = {.max_bytes = std::numeric_limits<int64_t>::max()};
  absl::StatusOr<AttendPlan> planned = PlanStep(
      RequestOf(received, session),
      {.model = session.target.model, .caches = &sequence.caches, .cached_len = sequence.length},
      has_reply ? terms.limit : no_limit, terms.planning);
  RETURN_IF_ERROR(UnderField("step.", planned.status()));
  AttendPlan request = *std::move(planned);
  RETURN_IF_ERROR(CheckHeads(request.key, session));
  const PlannedSequence& rows = request.sequences[0];
  if (rows.query.rows == 0 && rows.key.rows == 0) {
    return absl::InvalidArgumentError("step: expected at least one token, found none");
  }
  DropQuery(received.step, request);
  return request;
}

// Checks a truncation. Rotations that may not grow beyond a length may not shrink below it either.
absl::Status CheckSessionTruncation(const SessionPlan& session, int64_t length,
                                    int64_t new_length) {
  const std::shared_ptr<const Model>& model = session.target.model;
  const bool uses_own_rotation = model != nullptr && !session.step.options().has_rotary();
  return uses_own_rotation && new_length > 0 && new_length < length
             ? Prefixed("truncate.length", model->CheckGrowth(new_length, length - new_length))
             : absl::OkStatus();
}

}  // namespace attention
