// Requests for a model's layer: rows or token ids.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/services/attend_plan.h"

namespace attention {
namespace {

constexpr size_t kPaddedRank = 3;

absl::Status CheckWidth(const ReceivedTensor& tensor, int64_t expected, const std::string& path) {
  if (tensor.shape.back() != expected) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".shape: expected rows of ", expected,
                                                   ", found ", ShapeText(tensor.shape)));
  }
  return absl::OkStatus();
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
  if (rows.shape.size() == kPaddedRank && memory.shape[0] != rows.shape[0]) {
    return absl::InvalidArgumentError(
        absl::StrCat("hidden_states.memory.shape: expected a batch of ", rows.shape[0],
                     " as hidden_states.tensor, found ", ShapeText(memory.shape)));
  }
  return absl::OkStatus();
}

absl::Status PlanMemory(const Received<v1::AttendRequest>& request, AttendPlan& plan) {
  const v1::HiddenStates& input = request.message.hidden_states();
  const std::string path = "hidden_states.memory";
  ASSIGN_OR_RETURN(ReceivedTensor memory,
                   ReadPresentTensor(request, {input.memory(), true, path}, kPaddedRank));
  RETURN_IF_ERROR(CheckMemoryAgrees(memory, plan.operands[0]));
  RETURN_IF_ERROR(CheckWidth(memory, plan.model->layer(0).shape().d_memory, path));
  const RowLayout layout = LayoutOf(memory.shape, kPaddedRank);
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
  return absl::OkStatus();
}

void PlanSelfAttention(const std::vector<SequenceRows>& rows, const RowLayout& layout,
                       AttendPlan& plan) {
  plan.longest_query = plan.longest_key = LongestOf(rows, layout);
  plan.sequences.reserve(rows.size());
  for (const SequenceRows& sequence : rows) {
    plan.sequences.push_back({.query = sequence, .key = sequence});
  }
}

}  // namespace

absl::Status PlanHiddenStates(const Received<v1::AttendRequest>& request, AttendPlan& plan) {
  const v1::HiddenStates& input = request.message.hidden_states();
  const std::string path = "hidden_states.tensor";
  ASSIGN_OR_RETURN(
      plan.operands[0],
      ReadPresentTensor(request, {input.tensor(), input.has_tensor(), path}, kPaddedRank));
  const ReceivedTensor& tensor = plan.operands[0];
  RETURN_IF_ERROR(CheckWidth(tensor, plan.model->layer(0).shape().d_model, path));
  const RowLayout layout = LayoutOf(tensor.shape, kPaddedRank);
  ASSIGN_OR_RETURN(const std::vector<SequenceRows> rows,
                   ReadLengths(input.lengths(), layout, "hidden_states.lengths"));
  PlanSelfAttention(rows, layout, plan);
  plan.output_dtype = tensor.dtype;
  plan.output_shape = tensor.shape;
  plan.output_width = tensor.shape.back();
  if (input.has_memory()) {
    return PlanMemory(request, plan);
  }
  if (!input.memory_lengths().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("hidden_states.memory_lengths: expected none without memory, found ",
                     input.memory_lengths().size(), " values"));
  }
  if (const MultiHeadAttentionShape& shape = plan.model->layer(0).shape();
      shape.d_memory != shape.d_model) {
    return absl::InvalidArgumentError(absl::StrCat("hidden_states.memory: expected rows of ",
                                                   shape.d_memory, " for model \"",
                                                   plan.model->name(), "\", found none"));
  }
  return absl::OkStatus();
}

absl::Status PlanTokenIds(const Received<v1::AttendRequest>& request, AttendPlan& plan) {
  const v1::TokenIds& input = request.message.token_ids();
  const RowLayout layout = {.seq_len = input.ids().size()};
  ASSIGN_OR_RETURN(const std::vector<SequenceRows> rows,
                   ReadLengths(input.lengths(), layout, "token_ids.lengths"));
  plan.ids.assign(input.ids().begin(), input.ids().end());
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto ids = std::span<const int32_t>(plan.ids).subspan(rows[i].first_row, rows[i].rows);
    if (absl::Status status = plan.model->ValidateTokens({ids}); !status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat(std::string(status.message()), " in sequence ", i));
    }
  }
  PlanSelfAttention(rows, layout, plan);
  plan.is_token_request = true;
  plan.output_dtype = Dtype::kF32;
  plan.output_width = plan.model->layer(0).shape().d_model;
  plan.output_shape = {input.ids().size(), plan.output_width};
  return absl::OkStatus();
}

}  // namespace attention
