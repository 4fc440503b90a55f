#include "server/services/plan/plan_query_key_value.h"

#include <string>
#include <vector>

#include "core/attention/attention.h"
#include "core/runtime/status_macros.h"
#include "server/services/plan/field_error.h"
#include "server/services/plan/row_lengths.h"
#include "server/services/plan/tensor_field.h"

namespace attention {
namespace {

constexpr size_t kPaddedHeadsRank = 4;

const char* const kPaths[] = {"query_key_value.query", "query_key_value.key",
                              "query_key_value.value"};

absl::Status ReadOperands(const Received<v1::AttendRequest>& request, AttendPlan& plan) {
  const v1::QueryKeyValue& input = request.message.query_key_value();
  const TensorField fields[] = {{input.query(), input.has_query(), {kPaths[0]}},
                                {input.key(), input.has_key(), {kPaths[1]}},
                                {input.value(), input.has_value(), {kPaths[2]}}};
  for (int i = 0; i < 3; ++i) {
    ASSIGN_OR_RETURN(plan.operands[i], ReadPresentTensor(request, fields[i], kPaddedHeadsRank));
    const ReceivedTensor& tensor = plan.operands[i];
    const ReceivedTensor& query = plan.operands[0];
    if (tensor.dtype != query.dtype) {
      return Wrong(FieldPath{kPaths[i]}, ".dtype: expected ", std::string(Name(query.dtype)),
                   " as query, found ", std::string(Name(tensor.dtype)));
    }
    if (tensor.shape.size() != query.shape.size()) {
      return Wrong(FieldPath{kPaths[i]}, ".shape: expected rank ", query.shape.size(),
                   " as query, found ", ShapeText(tensor.shape));
    }
  }
  return absl::OkStatus();
}

// Checks that an extent has a certain value.
absl::Status CheckExtent(const AttendPlan& plan, int operand, size_t axis_from_end,
                         int64_t expected) {
  const Shape& shape = plan.operands[operand].shape;
  const size_t axis = shape.size() - axis_from_end;
  if (shape[axis] != expected) {
    return Wrong(FieldPath{kPaths[operand]}, ".shape[", axis, "]: expected ", expected, ", found ",
                 ShapeText(shape));
  }
  return absl::OkStatus();
}

absl::Status CheckShapes(const AttendPlan& plan) {
  const Shape& query = plan.operands[0].shape;
  const Shape& key = plan.operands[1].shape;
  if (query.size() == kPaddedHeadsRank) {
    RETURN_IF_ERROR(CheckExtent(plan, 1, kPaddedHeadsRank, query[0]));
    RETURN_IF_ERROR(CheckExtent(plan, 2, kPaddedHeadsRank, query[0]));
  }
  RETURN_IF_ERROR(CheckExtent(plan, 2, 3, key[key.size() - 3]));
  RETURN_IF_ERROR(CheckExtent(plan, 2, 2, plan.key.num_kv_heads));
  RETURN_IF_ERROR(CheckExtent(plan, 1, 1, plan.key.head_dim));
  if (plan.key.num_kv_heads < 1) {
    return Wrong(FieldPath{kPaths[1]}, ".shape: expected at least 1 head, found ", ShapeText(key));
  }
  if (plan.key.num_heads < 1 || plan.key.num_heads % plan.key.num_kv_heads != 0) {
    return Wrong(FieldPath{kPaths[0]},
                 ".shape: expected a number of heads that is a positive multiple of the key's ",
                 plan.key.num_kv_heads, ", found ", ShapeText(query));
  }
  if (plan.key.num_heads > kMaxHeads) {
    return Wrong(FieldPath{kPaths[0]}, ".shape: expected at most ", kMaxHeads, " heads, found ",
                 ShapeText(query));
  }
  // The limits of the core.
  const BatchKey& k = plan.key;
  const AttentionSequence extents = {
      .query = DenseHeads<const void*>(nullptr, k.dtype, 0, k.num_heads, k.head_dim),
      .key = DenseHeads<const void*>(nullptr, k.dtype, 0, k.num_kv_heads, k.head_dim),
      .value = DenseHeads<const void*>(nullptr, k.dtype, 0, k.num_kv_heads, k.value_head_dim),
      .output = DenseHeads<void*>(nullptr, k.dtype, 0, k.num_heads, k.value_head_dim),
      .options = {}};
  if (absl::Status status = Validate({&extents, 1}); !status.ok()) {
    return FieldError(status.code(), FieldPath{"query_key_value"}, ": ",
                      std::string(status.message()));
  }
  return absl::OkStatus();
}

absl::Status PlanSequences(const v1::QueryKeyValue& input, AttendPlan& plan) {
  const RowLayout query_layout = LayoutOf(plan.operands[0].shape, kPaddedHeadsRank);
  const RowLayout key_layout = LayoutOf(plan.operands[1].shape, kPaddedHeadsRank);
  ASSIGN_OR_RETURN(const std::vector<SequenceRows> queries,
                   ReadLengths(input.lengths(), query_layout, {"query_key_value.lengths"}));
  ASSIGN_OR_RETURN(const std::vector<SequenceRows> keys,
                   ReadLengths(input.kv_lengths(), key_layout, {"query_key_value.kv_lengths"}));
  if (keys.size() != queries.size()) {
    return Wrong(FieldPath{"query_key_value.kv_lengths"}, ": expected ", queries.size(),
                 " values, one for each sequence, found ", input.kv_lengths().size());
  }
  plan.longest_query = LongestOf(queries, query_layout);
  plan.longest_key = LongestOf(keys, key_layout);
  const Lengths& offsets = input.query_offsets();
  if (!offsets.empty() && offsets.size() != std::ssize(queries)) {
    return Wrong(FieldPath{"query_key_value.query_offsets"},
                 ": expected no value or one for each of ", queries.size(), " sequences, found ",
                 offsets.size());
  }
  for (int i = 0; i < std::ssize(queries); ++i) {
    PlannedSequence sequence = {.query = queries[i], .key = keys[i], .output = queries[i]};
    if (!offsets.empty()) {
      if (offsets[i] < -kMaxPosition || offsets[i] > kMaxPosition) {
        return Wrong(FieldPath{"query_key_value.query_offsets"}, "[", i, "]: expected ",
                     -kMaxPosition, " to ", kMaxPosition, ", found ", offsets[i]);
      }
      sequence.query_offset = offsets[i];
    } else if (query_layout.is_padded) {
      sequence.query_offset = key_layout.seq_len - query_layout.seq_len;
    }
    plan.sequences.push_back(sequence);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PlanQueryKeyValue(const Received<v1::AttendRequest>& request, AttendPlan& plan) {
  RETURN_IF_ERROR(ReadOperands(request, plan));
  const Shape& query = plan.operands[0].shape;
  const Shape& key = plan.operands[1].shape;
  plan.key = {.model = nullptr,
              .has_memory = true,
              .num_heads = query[query.size() - 2],
              .num_kv_heads = key[key.size() - 2],
              .head_dim = query.back(),
              .value_head_dim = plan.operands[2].shape.back(),
              .dtype = plan.operands[0].dtype};
  RETURN_IF_ERROR(CheckShapes(plan));
  RETURN_IF_ERROR(PlanSequences(request.message.query_key_value(), plan));
  plan.num_heads = plan.key.num_heads;
  plan.head_dim = plan.key.head_dim;
  plan.output_dtype = plan.key.dtype;
  plan.output_shape = query;
  plan.output_shape.back() = plan.key.value_head_dim;
  plan.output_width = plan.key.num_heads * plan.key.value_head_dim;
  return absl::OkStatus();
}

}  // namespace attention
