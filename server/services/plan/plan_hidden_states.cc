#include "server/services/plan/plan_hidden_states.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/services/plan/field_error.h"
#include "server/services/plan/plan_run.h"
#include "server/services/plan/row_lengths.h"
#include "server/services/plan/tensor_field.h"

namespace attention {
namespace {

constexpr size_t kPaddedStatesRank = 3;

constexpr char kTensorPath[] = "hidden_states.tensor";
constexpr char kLengthsPath[] = "hidden_states.lengths";
constexpr char kMemoryPath[] = "hidden_states.memory";
constexpr char kMemoryLengthsPath[] = "hidden_states.memory_lengths";
constexpr char kMemoryValuesPath[] = "hidden_states.memory_values";

absl::Status CheckWidth(const ReceivedTensor& tensor, int64_t expected, const FieldPath& path) {
  if (tensor.shape.back() != expected) {
    return Wrong(path, ".shape: expected rows of ", expected, ", found ", ShapeText(tensor.shape));
  }
  return absl::OkStatus();
}

// The widths of the input rows.
struct RowWidths {
  int64_t rows = 0;
  int64_t memory = 0;
  int64_t memory_value = 0;  // 0: the values come from memory
};

RowWidths WidthsOf(const AttendPlan& plan) {
  if (plan.key.is_stack()) {
    return {plan.model->info().d_model, plan.model->info().d_model};
  }
  const MultiHeadAttentionShape& shape = plan.model->layer(plan.key.layer).shape();
  return {shape.d_model, shape.d_memory, shape.has_memory_values() ? shape.d_memory_value : 0};
}

absl::Status MissingRows(const FieldPath& path, int64_t width, const AttendPlan& plan) {
  return Wrong(path, ": expected rows of ", width, " for ", plan.RunName(), ", found none");
}

absl::Status ExpectNone(bool is_present, const FieldPath& path, const AttendPlan& plan) {
  return !is_present ? absl::OkStatus()
                     : Wrong(path, ": expected none for ", plan.RunName(), ", found one");
}

std::string TensorText(Dtype dtype, const Shape& shape) {
  return absl::StrCat(std::string(Name(dtype)), " ", ShapeText(shape));
}

absl::Status CheckMemoryAgrees(const ReceivedTensor& memory, const ReceivedTensor& rows) {
  const FieldPath tensor = {kTensorPath};
  if (memory.dtype != rows.dtype) {
    return Wrong(FieldPath{kMemoryPath}, ".dtype: expected ", std::string(Name(rows.dtype)), " as ",
                 tensor, ", found ", std::string(Name(memory.dtype)));
  }
  if (memory.shape.size() != rows.shape.size()) {
    return Wrong(FieldPath{kMemoryPath}, ".shape: expected rank ", rows.shape.size(), " as ",
                 tensor, ", found ", ShapeText(memory.shape));
  }
  if (rows.shape.size() == kPaddedStatesRank && memory.shape[0] != rows.shape[0]) {
    return Wrong(FieldPath{kMemoryPath}, ".shape: expected a batch of ", rows.shape[0], " as ",
                 tensor, ", found ", ShapeText(memory.shape));
  }
  return absl::OkStatus();
}

// Plans memory_values. Their last extent is the layer's width; the others are those of memory.
absl::Status PlanMemoryValues(const Received<v1::AttendRequest>& request, AttendPlan& plan) {
  const v1::HiddenStates& input = request.message.hidden_states();
  const int64_t width = WidthsOf(plan).memory_value;
  const FieldPath path = {kMemoryValuesPath};
  if (width == 0) {
    return ExpectNone(input.has_memory_values(), path, plan);
  }
  if (!input.has_memory_values()) {
    return MissingRows(path, width, plan);
  }
  ASSIGN_OR_RETURN(plan.operands[2], ReadPresentTensor(request, {input.memory_values(), true, path},
                                                       kPaddedStatesRank));
  Shape expected = plan.operands[1].shape;
  expected.back() = width;
  if (plan.operands[2].dtype != plan.operands[1].dtype || plan.operands[2].shape != expected) {
    return Wrong(path, ": expected ", TensorText(plan.operands[1].dtype, expected),
                 " beside memory, found ",
                 TensorText(plan.operands[2].dtype, plan.operands[2].shape));
  }
  return absl::OkStatus();
}

absl::Status PlanMemory(const Received<v1::AttendRequest>& request, AttendPlan& plan) {
  const v1::HiddenStates& input = request.message.hidden_states();
  const FieldPath path = {kMemoryPath};
  const FieldPath lengths_path = {kMemoryLengthsPath};
  ASSIGN_OR_RETURN(ReceivedTensor memory,
                   ReadPresentTensor(request, {input.memory(), true, path}, kPaddedStatesRank));
  RETURN_IF_ERROR(CheckMemoryAgrees(memory, plan.operands[0]));
  RETURN_IF_ERROR(CheckWidth(memory, WidthsOf(plan).memory, path));
  const RowLayout layout = LayoutOf(memory.shape, kPaddedStatesRank);
  ASSIGN_OR_RETURN(const std::vector<SequenceRows> rows,
                   ReadLengths(input.memory_lengths(), layout, lengths_path));
  if (rows.size() != plan.sequences.size()) {
    return Wrong(lengths_path, ": expected ", plan.sequences.size(),
                 " values, one for each sequence, found ", input.memory_lengths().size());
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    plan.sequences[i].key = rows[i];
  }
  plan.longest_key = LongestOf(rows, layout);
  plan.operands[1] = std::move(memory);
  plan.key.has_memory = true;
  return PlanMemoryValues(request, plan);
}

absl::Status CheckMemoryUse(const v1::HiddenStates& input, const AttendPlan& plan) {
  const MemoryUse use = MemoryUseOf(plan);
  if (use == MemoryUse::kAlways && !input.has_memory()) {
    return MissingRows({kMemoryPath}, WidthsOf(plan).memory, plan);
  }
  RETURN_IF_ERROR(ExpectNone(use == MemoryUse::kNever && input.has_memory(), {kMemoryPath}, plan));
  if (!input.has_memory() && !input.memory_lengths().empty()) {
    return Wrong(FieldPath{kMemoryLengthsPath}, ": expected none without memory, found ",
                 input.memory_lengths().size(), " values");
  }
  return ExpectNone(!input.has_memory() && input.has_memory_values(), {kMemoryValuesPath}, plan);
}

absl::Status CheckEncoderAlone(const v1::HiddenStates& input, const AttendPlan& plan) {
  if (!input.lengths().empty()) {
    return Wrong(FieldPath{kLengthsPath}, ": expected none without tensor, found ",
                 input.lengths().size(), " values");
  }
  return ExpectNone(input.has_memory_values(), {kMemoryValuesPath}, plan);
}

// The field that holds the rows, and the field of their lengths.
struct RowsField {
  TensorField tensor;
  const Lengths& lengths;
  FieldPath lengths_path;
};

RowsField RowsFieldOf(const v1::HiddenStates& input, const AttendPlan& plan) {
  if (plan.key.layer == kEncoderAlone) {
    return {{input.memory(), input.has_memory(), {kMemoryPath}},
            input.memory_lengths(),
            {kMemoryLengthsPath}};
  }
  return {{input.tensor(), input.has_tensor(), {kTensorPath}}, input.lengths(), {kLengthsPath}};
}

}  // namespace

absl::Status PlanHiddenStates(const Received<v1::AttendRequest>& request, AttendPlan& plan) {
  const v1::HiddenStates& input = request.message.hidden_states();
  const RowsField field = RowsFieldOf(input, plan);
  ASSIGN_OR_RETURN(plan.operands[0], ReadPresentTensor(request, field.tensor, kPaddedStatesRank));
  const ReceivedTensor& tensor = plan.operands[0];
  RETURN_IF_ERROR(CheckWidth(tensor, WidthsOf(plan).rows, field.tensor.path));
  const RowLayout layout = LayoutOf(tensor.shape, kPaddedStatesRank);
  ASSIGN_OR_RETURN(const std::vector<SequenceRows> rows,
                   ReadLengths(field.lengths, layout, field.lengths_path));
  PlanSelfAttention(rows, layout, plan);
  plan.output_dtype = tensor.dtype;
  plan.output_shape = tensor.shape;
  plan.output_width = tensor.shape.back();
  if (plan.key.layer == kEncoderAlone) {
    return CheckEncoderAlone(input, plan);
  }
  RETURN_IF_ERROR(CheckMemoryUse(input, plan));
  return input.has_memory() ? PlanMemory(request, plan) : absl::OkStatus();
}

}  // namespace attention
