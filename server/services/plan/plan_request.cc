#include "server/services/plan/plan_request.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/services/plan/field_error.h"
#include "server/services/plan/find_model.h"
#include "server/services/plan/plan_hidden_states.h"
#include "server/services/plan/plan_query_key_value.h"
#include "server/services/plan/plan_run.h"
#include "server/services/plan/plan_tokens.h"
#include "server/services/plan/saturating.h"

namespace attention {
namespace {

OptionExtents ExtentsOf(const AttendPlan& plan) {
  OptionExtents extents = {
      .kv_lens = {},
      .num_heads = plan.num_heads,
      .head_dim = plan.head_dim,
      .query_len = plan.longest_query,
      .kv_len = plan.longest_key,
      .is_causal = plan.model != nullptr && plan.model->info().layers[plan.key.layer].causal};
  extents.kv_lens.reserve(plan.sequences.size());
  for (const PlannedSequence& sequence : plan.sequences) {
    extents.kv_lens.push_back(plan.cached_len + sequence.key.rows);
  }
  return extents;
}

// Returns the size of the reply for one sequence besides its output.
int64_t ScoreBytes(const AttendPlan& plan, const PlannedSequence& sequence) {
  const v1::AttentionOptions& wanted = *plan.options.wire;
  const int64_t row_elements =
      SaturatingSum(wanted.return_weights() ? plan.KeysOf(sequence) : 0,
                    (wanted.return_log_sum_exp() ? 1 : 0) + 2 * plan.TopKOf(sequence));
  int64_t elements = SaturatingProduct({plan.num_heads, sequence.query.rows, row_elements});
  for (const int64_t layer : plan.weights_choice.layers) {
    const auto [num_heads, rows, keys] = plan.WeightsOf(layer, sequence);
    elements = SaturatingSum(elements, SaturatingProduct({num_heads, rows, keys}));
  }
  return SaturatingProduct({elements, int64_t{sizeof(float)}});
}

// Returns the memory of a run of the whole stack that is not part of the answer: the rows that are
// pooled, and all heads of a layer of which some are chosen.
int64_t RunBytes(const AttendPlan& plan, int64_t tokens) {
  const ModelInfo& info = plan.model->info();
  int64_t most = SaturatingProduct({tokens, info.d_model});
  for (const int64_t layer : plan.weights_choice.layers) {
    int64_t elements = 0;
    for (const PlannedSequence& sequence : plan.sequences) {
      const auto [_, rows, keys] = plan.WeightsOf(layer, sequence);
      elements = SaturatingSum(elements,
                               SaturatingProduct({info.layers[layer].shape.num_heads, rows, keys}));
    }
    most = std::max(most, elements);
  }
  return SaturatingProduct({most, int64_t{sizeof(float)}});
}

absl::Status CheckRun(const AttendPlan& plan, int64_t tokens, const ReplyLimit& limit) {
  if (!plan.key.is_stack()) {
    return absl::OkStatus();
  }
  const int64_t bytes = RunBytes(plan, tokens);
  if (bytes > limit.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("computing ", tokens, " tokens would take ",
                                                     bytes, " bytes of memory; the maximum is ",
                                                     limit.max_bytes, " (", limit.flag, ")"));
  }
  return absl::OkStatus();
}

absl::Status CheckNumTables(const AttendPlan& plan) {
  if (plan.NumTables() <= kMaxScoreTables) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(plan.key.is_stack() ? "weights_choice" : "options", ": expected at most ",
                   kMaxScoreTables, " tables of weights and log-sum-exp in a reply, found ",
                   plan.NumTables(), " for ", plan.sequences.size(), " sequences"));
}

absl::Status CheckSize(const AttendPlan& plan, const ReplyLimit& limit) {
  RETURN_IF_ERROR(CheckNumTables(plan));
  int64_t tokens = 0, keys = 0;
  int64_t reply_bytes = static_cast<int64_t>(SizeOf(plan.output_dtype));
  for (const int64_t extent : plan.output_shape) {
    reply_bytes = SaturatingProduct({reply_bytes, extent});
  }
  for (const PlannedSequence& sequence : plan.sequences) {
    tokens = SaturatingSum(tokens, sequence.query.rows);
    keys = SaturatingSum(keys, sequence.key.rows);
    reply_bytes = SaturatingSum(reply_bytes, ScoreBytes(plan, sequence));
  }
  // Keys of narrow heads take many times the memory of their rows while they are packed.
  if (tokens > kMaxTokens || keys > kMaxTokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat("expected at most ", kMaxTokens, tokens > kMaxTokens ? " query rows" : " keys",
                     " in a request, found ", tokens > kMaxTokens ? tokens : keys));
  }
  RETURN_IF_ERROR(limit.Check(reply_bytes));
  return CheckRun(plan, tokens, limit);
}

absl::Status PlanInput(const Received<v1::AttendRequest>& request, const PlanTerms& terms,
                       AttendPlan& plan) {
  switch (request.message.input_case()) {
    case v1::AttendRequest::kHiddenStates:
      return PlanHiddenStates(request, plan);
    case v1::AttendRequest::kTokenIds:
      return PlanTokenIds(request.message.token_ids(), plan);
    case v1::AttendRequest::kText:
      return PlanText(request.message.text(), terms, plan);
    case v1::AttendRequest::kQueryKeyValue:
      return PlanQueryKeyValue(request, plan);
    default:
      return Wrong(
          FieldPath{"input"},
          ": expected hidden_states, token_ids, text or query_key_value, found none of them");
  }
}

// A request of a layer that gives a rotation does not use the model's own, nor has its limits.
absl::Status CheckGrowth(const AttendPlan& plan) {
  if (plan.model == nullptr || plan.options.wire->has_rotary()) {
    return absl::OkStatus();
  }
  for (const PlannedSequence& sequence : plan.sequences) {
    RETURN_IF_ERROR(plan.model->CheckGrowth(plan.cached_len, sequence.query.rows));
  }
  return absl::OkStatus();
}

absl::StatusOr<AttendPlan> PlanRest(const Received<v1::AttendRequest>& request,
                                    const ReplyLimit& limit, const PlanTerms& terms,
                                    AttendPlan plan) {
  RETURN_IF_ERROR(PlanRun(request.message, plan));
  RETURN_IF_ERROR(PlanInput(request, terms, plan));
  if (plan.key.is_stack()) {
    PlanStackOutput(plan);
    plan.options.wire = std::make_unique<const v1::AttentionOptions>();
  } else {
    ASSIGN_OR_RETURN(plan.options, PlanOptions(request, ExtentsOf(plan)));
  }
  RETURN_IF_ERROR(CheckGrowth(plan));
  RETURN_IF_ERROR(CheckSize(plan, limit));
  return plan;
}

// The memory of a message of a step's answer, encoded and waiting to be sent, besides the memory
// that it refers to.
constexpr int64_t kStepMessageBytes = 1024;

// Returns the minimum number of messages. Weights and other tables are sent by heads.
int64_t StepMessages(const AttendPlan& plan) {
  return SaturatingProduct({plan.NumTables(), plan.num_heads});
}

// Refuses fields that would make several sequences, or more than the sequence.
absl::Status CheckStepInput(const v1::AttendRequest& request) {
  const auto expect_none = [](int found, const char* field) {
    return found == 0 ? absl::OkStatus()
                      : Wrong(FieldPath{field},
                              ": expected none in a session, whose steps have one sequence, found ",
                              found);
  };
  const v1::HiddenStates& rows = request.hidden_states();
  RETURN_IF_ERROR(expect_none(rows.lengths_size(), "hidden_states.lengths"));
  RETURN_IF_ERROR(expect_none(request.token_ids().lengths_size(), "token_ids.lengths"));
  const v1::QueryKeyValue& qkv = request.query_key_value();
  RETURN_IF_ERROR(expect_none(qkv.lengths_size(), "query_key_value.lengths"));
  RETURN_IF_ERROR(expect_none(qkv.kv_lengths_size(), "query_key_value.kv_lengths"));
  return rows.has_memory() ? Wrong(FieldPath{"hidden_states.memory"},
                                   ": expected none in a session, found a tensor")
                           : absl::OkStatus();
}

// Places the rows of a step behind the cached tokens, each with its key. With explicit positions
// (query_offsets), the rows stand there, and the number of keys is free.
absl::Status PlaceStep(const v1::AttendRequest& request, PlannedSequence& sequence) {
  if (!request.query_key_value().query_offsets().empty()) {
    return absl::OkStatus();
  }
  sequence.query_offset.reset();
  if (sequence.key.rows != sequence.query.rows) {
    return Wrong(FieldPath{"query_key_value.key.shape"}, ": expected as many rows as query, ",
                 sequence.query.rows, ", without query_offsets, found ", sequence.key.rows);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReplyLimit::Check(int64_t reply_bytes) const {
  return reply_bytes <= max_bytes ? absl::OkStatus()
                                  : absl::ResourceExhaustedError(absl::StrCat(
                                        "the reply would have ", reply_bytes,
                                        " bytes; the maximum is ", max_bytes, " (", flag, ")"));
}

absl::StatusOr<std::shared_ptr<const Model>> ModelOf(const v1::AttendRequest& request,
                                                     const ModelRepository& models) {
  if (request.has_query_key_value()) {
    return nullptr;
  }
  std::optional<int64_t> version;
  if (request.has_model_version()) {
    version = request.model_version();
  }
  return FindModel(models, request.model(), version);
}

absl::StatusOr<AttendPlan> PlanAttendOn(std::shared_ptr<const Model> model,
                                        const Received<v1::AttendRequest>& request,
                                        const ReplyLimit& limit, const PlanTerms& terms) {
  AttendPlan plan;
  plan.model = std::move(model);
  return PlanRest(request, limit, terms, std::move(plan));
}

absl::StatusOr<AttendPlan> PlanStep(const Received<v1::AttendRequest>& request,
                                    const StepTarget& target, const ReplyLimit& limit,
                                    const PlanTerms& terms) {
  RETURN_IF_ERROR(CheckStepInput(request.message));
  AttendPlan begun;
  begun.model = target.model;
  begun.caches = target.caches;
  begun.cached_len = target.cached_len;
  ASSIGN_OR_RETURN(AttendPlan plan, PlanRest(request, limit, terms, std::move(begun)));
  if (plan.sequences.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("step: expected one sequence, found ", plan.sequences.size()));
  }
  RETURN_IF_ERROR(PlaceStep(request.message, plan.sequences[0]));
  plan.copied_reply_bytes = SaturatingProduct({StepMessages(plan), kStepMessageBytes});
  return plan;
}

}  // namespace attention
