#include "server/services/attend_plan.h"

#include <initializer_list>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

int64_t SaturatingSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

int64_t SaturatingProduct(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (factor == 0) {
      return 0;
    }
    if (__builtin_mul_overflow(product, factor, &product)) {
      product = std::numeric_limits<int64_t>::max();
    }
  }
  return product;
}

OptionExtents ExtentsOf(const AttendPlan& plan) {
  OptionExtents extents = {.kv_lens = {},
                           .num_heads = plan.num_heads,
                           .head_dim = plan.head_dim,
                           .query_len = plan.longest_query,
                           .kv_len = plan.longest_key,
                           .is_causal = plan.model != nullptr && plan.model->info().layers[0].causal};
  extents.kv_lens.reserve(plan.sequences.size());
  for (const PlannedSequence& sequence : plan.sequences) {
    extents.kv_lens.push_back(sequence.key.rows);
  }
  return extents;
}

// What the reply has for one sequence beside its output.
int64_t ScoreBytes(const AttendPlan& plan, const PlannedSequence& sequence) {
  const v1::AttentionOptions& wanted = *plan.options.wire;
  const int64_t row_elements =
      SaturatingSum(wanted.return_weights() ? sequence.key.rows : 0,
                    (wanted.return_log_sum_exp() ? 1 : 0) + 2 * plan.TopKOf(sequence));
  return SaturatingProduct(
      {plan.num_heads, sequence.query.rows, row_elements, int64_t{sizeof(float)}});
}

absl::Status CheckSize(const AttendPlan& plan, const ReplyLimit& limit) {
  int64_t tokens = 0;
  int64_t reply_bytes = static_cast<int64_t>(SizeOf(plan.output_dtype));
  for (const int64_t extent : plan.output_shape) {
    reply_bytes = SaturatingProduct({reply_bytes, extent});
  }
  for (const PlannedSequence& sequence : plan.sequences) {
    tokens = SaturatingSum(tokens, sequence.query.rows);
    reply_bytes = SaturatingSum(reply_bytes, ScoreBytes(plan, sequence));
  }
  if (tokens > kMaxTokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat("expected at most ", kMaxTokens, " query rows in a request, found ", tokens));
  }
  if (reply_bytes > limit.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the reply would have ", reply_bytes,
                                                     " bytes, at most ", limit.max_bytes,
                                                     " may be sent (", limit.flag, ")"));
  }
  return absl::OkStatus();
}

absl::Status PlanInput(const Received<v1::AttendRequest>& request, AttendPlan& plan) {
  switch (request.message.input_case()) {
    case v1::AttendRequest::kHiddenStates:
      return PlanHiddenStates(request, plan);
    case v1::AttendRequest::kTokenIds:
      return PlanTokenIds(request, plan);
    case v1::AttendRequest::kQueryKeyValue:
      return PlanQueryKeyValue(request, plan);
    default:
      return absl::InvalidArgumentError(
          "input: expected hidden_states, token_ids or query_key_value, found none of them");
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Model>> FindModel(const ModelRepository& models,
                                                       const std::string& name) {
  if (std::shared_ptr<const Model> model = models.Find(name)) {
    return model;
  }
  const auto append_name = [](std::string* out, const std::shared_ptr<const Model>& model) {
    absl::StrAppend(out, "\"", model->name(), "\"");
  };
  return absl::NotFoundError(absl::StrCat("model: expected one of ",
                                          absl::StrJoin(models.List(), ", ", append_name),
                                          ", found \"", name, "\""));
}

absl::StatusOr<ReceivedTensor> ReadPresentTensor(const Received<v1::AttendRequest>& request,
                                                 const TensorField& field, size_t padded_rank) {
  if (!field.is_present) {
    return absl::InvalidArgumentError(absl::StrCat(field.path, ": expected a tensor, found none"));
  }
  ASSIGN_OR_RETURN(ReceivedTensor tensor,
                   ReadTensor(field.wire, request.PayloadOf(field.wire), field.path));
  if (tensor.shape.size() != padded_rank && tensor.shape.size() + 1 != padded_rank) {
    return absl::InvalidArgumentError(absl::StrCat(field.path, ".shape: expected rank ",
                                                   padded_rank, " (padded) or ", padded_rank - 1,
                                                   " (packed), found ", ShapeText(tensor.shape)));
  }
  return tensor;
}

RowLayout LayoutOf(const Shape& shape, size_t padded_rank) {
  if (shape.size() == padded_rank) {
    return {.is_padded = true, .batch_size = shape[0], .seq_len = shape[1]};
  }
  return {.is_padded = false, .batch_size = 1, .seq_len = shape[0]};
}

absl::StatusOr<AttendPlan> PlanAttend(const Received<v1::AttendRequest>& request,
                                      const ModelRepository& models, const ReplyLimit& limit) {
  AttendPlan plan;
  const std::string& name = request.message.model();
  const bool is_bare = request.message.input_case() == v1::AttendRequest::kQueryKeyValue;
  if (is_bare && !name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model: expected none with query_key_value, found \"", name, "\""));
  }
  if (!is_bare) {
    ASSIGN_OR_RETURN(plan.model, FindModel(models, name));
    plan.key.model = plan.model.get();
    plan.num_heads = plan.model->layer(0).shape().num_heads;
    plan.head_dim = plan.model->layer(0).shape().head_dim;
  }
  RETURN_IF_ERROR(PlanInput(request, plan));
  ASSIGN_OR_RETURN(plan.options, PlanOptions(request, ExtentsOf(plan)));
  RETURN_IF_ERROR(CheckSize(plan, limit));
  return plan;
}

}  // namespace attention
