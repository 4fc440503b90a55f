#include "server/services/plan/plan_hidden_states.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/services/plan/plan_run.h"
#include "server/services/plan/row_lengths.h"
#include "server/services/plan/tensor_field.h"

namespace attention {
namespace {

constexpr size_t kPaddedStatesRank = 3;

absl::Status CheckWidth(const ReceivedTensor& tensor, int64_t expected, const std::string& path) {
  if (tensor.shape.back() != expected) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".shape: expected rows of ", expected,
                                                   ", found ", ShapeText(tensor.shape)));
  }
  return absl::OkStatus();
}

// Of the rows that enter.
struct RowWidths {
  int64_t rows = 0;
  int64_t memory = 0;
  int64_t memory_value = 0;  // 0: they are memory's
};

RowWidths WidthsOf(const AttendPlan& plan) {
  if (plan.key.is_stack()) {
    return {plan.model->info().d_model, plan.model->info().d_model};
  }
  const MultiHeadAttentionShape& shape = plan.model->layer(plan.key.layer).shape();
  return {shape.d_model, shape.d_memory, shape.has_memory_values() ? shape.d_memory_value : 0};
}

absl::Status MissingRows(const std::string& path, int64_t width, const AttendPlan& plan) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected rows of ", width, " for ", plan.RunName(), ", found none"));
}

absl::Status ExpectNone(bool is_present, const std::string& path, const AttendPlan& plan) {
  return !is_present ? absl::OkStatus()
                     : absl::InvalidArgumentError(absl::StrCat(path, ": expected none for ",
                                                               plan.RunName(), ", found one"));
}

std::string TensorText(Dtype dtype, const Shape& shape) {
  return absl::StrCat(std::string(Name(dtype)), " ", ShapeText(shape));
}

absl::Status CheckMemoryAgrees(const ReceivedTensor& memory, const ReceivedTensor& rows) {
  if (memory.dtype != rows.dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("hidden_states.memory.dtype: expected ", std::string(Name(rows.dtype)),
                     " as hidden_states.tensor, found ", std::string(Name(memory.dtype))));
  }
  if (memory.shape.size() != rows.shape.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("hidden_states.memory.shape: expected rank ", rows.shape.size(),
                     " as hidden_states.tensor, found ", ShapeText(memory.shape)));
  }
  if (rows.shape.size() == kPaddedStatesRank && memory.shape[0] != rows.shape[0]) {
    return absl::InvalidArgumentError(
        absl::StrCat("hidden_states.memory.shape: expected a batch of ", rows.shape[0],
                     " as hidden_states.tensor, found ", ShapeText(memory.shape)));
  }
  return absl::OkStatus();
}

// The width of the last extent is the layer's; the others are memory's.
absl::Status PlanMemoryValues(const Received<v1::AttendRequest>& request, AttendPlan& plan) {
  const v1::HiddenStates& input = request.message.hidden_states();
  const int64_t width = WidthsOf(plan).memory_value;
  const std::string path = "hidden_states.memory_values";
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
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": expected ", TensorText(plan.operands[1].dtype, expected), " beside memory, found ",
        TensorText(plan.operands[2].dtype, plan.operands[2].shape)));
  }
  return absl::OkStatus();
}

absl::Status PlanMemory(const Received<v1::AttendRequest>& request, AttendPlan& plan) {
  const v1::HiddenStates& input = request.message.hidden_states();
  const std::string path = "hidden_states.memory";
  ASSIGN_OR_RETURN(ReceivedTensor memory,
                   ReadPresentTensor(request, {input.memory(), true, path}, kPaddedStatesRank));
  RETURN_IF_ERROR(CheckMemoryAgrees(memory, plan.operands[0]));
  RETURN_IF_ERROR(CheckWidth(memory, WidthsOf(plan).memory, path));
  const RowLayout layout = LayoutOf(memory.shape, kPaddedStatesRank);
  ASSIGN_OR_RETURN(const std::vector<SequenceRows> rows,
                   ReadLengths(input.memory_lengths(), layout, path + "_lengths"));
  if (rows.size() != plan.sequences.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, "_lengths: expected ", plan.sequences.size(),
                     " values, one for each sequence, found ", input.memory_lengths().size()));
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
    return MissingRows("hidden_states.memory", WidthsOf(plan).memory, plan);
  }
  RETURN_IF_ERROR(
      ExpectNone(use == MemoryUse::kNever && input.has_memory(), "hidden_states.memory", plan));
  if (!input.has_memory() && !input.memory_lengths().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("hidden_states.memory_lengths: expected none without memory, found ",
                     input.memory_lengths().size(), " values"));
  }
  return ExpectNone(!input.has_memory() && input.has_memory_values(), "hidden_states.memory_values",
                    plan);
}

absl::Status CheckEncoderAlone(const v1::HiddenStates& input, const AttendPlan& plan) {
  if (!input.lengths().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("hidden_states.lengths: expected none without tensor, found ",
                     input.lengths().size(), " values"));
  }
  return ExpectNone(input.has_memory_values(), "hidden_states.memory_values", plan);
}

// Where the rows of what runs stand in the request.
struct RowsField {
  TensorField tensor;
  const Lengths& lengths;
  std::string lengths_path;
};

RowsField RowsFieldOf(const v1::HiddenStates& input, const AttendPlan& plan) {
  if (plan.key.layer == kEncoderAlone) {
    return {{input.memory(), input.has_memory(), "hidden_states.memory"},
            input.memory_lengths(),
            "hidden_states.memory_lengths"};
  }
  return {{input.tensor(), input.has_tensor(), "hidden_states.tensor"},
          input.lengths(),
          "hidden_states.lengths"};
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
  for (const SequenceRows& sequence : rows) {
    RETURN_IF_ERROR(plan.model->CheckGrowth(plan.cached_len, sequence.rows));
  }
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
