#include "client/load/decode_plan.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/lib/answer_shape.h"
#include "client/load/workload.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/seeded.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

/// The tensors of the input, which give widths and dtypes; none for token ids.
absl::StatusOr<std::vector<const Tensor*>> TensorsOf(const AttendRequest& like) {
  if (const auto* rows = std::get_if<HiddenStatesInput>(&like.input)) {
    if (rows->tensor != nullptr && rows->memory == nullptr && !rows->tensor->shape().empty()) {
      return std::vector{rows->tensor};
    }
  } else if (const auto* heads = std::get_if<QueryKeyValueInput>(&like.input)) {
    const std::vector tensors = {heads->query, heads->key, heads->value};
    for (const Tensor* tensor : tensors) {
      if (tensor == nullptr || tensor->shape().size() < 3) {
        return absl::InvalidArgumentError(
            "decode: expected query, key and value of rank 3 or 4, found another");
      }
    }
    return tensors;
  } else if (const auto* tokens = std::get_if<TokenIdsInput>(&like.input)) {
    if (!tokens->ids.empty() && tokens->type_ids.empty()) {
      return std::vector<const Tensor*>();
    }
  }
  return absl::InvalidArgumentError(
      "decode: expected hidden states, token ids without types, or query, key and value; found "
      "another input");
}

/// The extents of one token.
Shape RowShape(const Tensor& tensor, size_t rank) {
  return Shape(tensor.shape().end() - static_cast<int64_t>(rank), tensor.shape().end());
}

Tensor SeededRows(const Tensor& like, size_t row_rank, int64_t count, uint64_t seed) {
  Shape shape = RowShape(like, row_rank);
  shape.insert(shape.begin(), count);
  return SeededTensor(seed, like.dtype(), std::move(shape));
}

decltype(AttendRequest::input) InputOf(const std::vector<const Tensor*>& tensors,
                                       const std::vector<int32_t>& ids) {
  if (tensors.empty()) {
    return TokenIdsInput{ids};
  }
  if (tensors.size() == 1) {
    return HiddenStatesInput{tensors[0]};
  }
  return QueryKeyValueInput{tensors[0], tensors[1], tensors[2]};
}

v1::OpenSession OpenOf(const AttendRequest& like, const std::vector<const Tensor*>& tensors) {
  v1::OpenSession open;
  open.set_model(like.model);
  if (like.model_version.has_value()) {
    open.set_model_version(*like.model_version);
  }
  if (like.layer.has_value()) {
    open.set_layer(*like.layer);
  }
  *open.mutable_options() = like.options;
  if (tensors.size() == 3) {
    v1::AttentionHeads& heads = *open.mutable_heads();
    heads.set_num_heads(RowShape(*tensors[0], 2)[0]);
    heads.set_num_kv_heads(RowShape(*tensors[1], 2)[0]);
    heads.set_head_dim(RowShape(*tensors[0], 2)[1]);
    heads.set_value_head_dim(RowShape(*tensors[2], 2)[1]);
    heads.set_dtype(ToWire(tensors[0]->dtype()));
  }
  return open;
}

/// Makes `count` tokens. Token ids are those of the request, from `first_id` on.
TokenRows MakeRows(const AttendRequest& like, const std::vector<const Tensor*>& tensors,
                   int64_t count, int64_t first_id, uint64_t seed) {
  TokenRows rows;
  for (size_t i = 0; i < tensors.size(); ++i) {
    rows.tensors.push_back(SeededRows(*tensors[i], tensors.size() == 1 ? 1 : 2, count,
                                      SeedOf(seed, absl::StrCat("tensor ", i))));
  }
  if (const auto* tokens = std::get_if<TokenIdsInput>(&like.input)) {
    for (int64_t i = 0; i < count; ++i) {
      rows.ids.push_back(tokens->ids[(first_id + i) % std::ssize(tokens->ids)]);
    }
  }
  return rows;
}

}  // namespace

Tensor JoinRows(const std::vector<const Tensor*>& parts) {
  Shape shape = parts[0]->shape();
  for (size_t i = 1; i < parts.size(); ++i) {
    shape[0] += parts[i]->shape()[0];
  }
  Tensor all(parts[0]->dtype(), std::move(shape));
  auto* target = static_cast<std::byte*>(all.data());
  for (const Tensor* part : parts) {
    if (part->size_bytes() > 0) {
      std::memcpy(target, part->data(), part->size_bytes());
      target += part->size_bytes();
    }
  }
  return all;
}

absl::StatusOr<DecodePlan> DecodePlan::Make(const AttendRequest& like, const DecodeOptions& options,
                                            uint64_t seed) {
  ASSIGN_OR_RETURN(const std::vector<const Tensor*> tensors, TensorsOf(like));
  if (like.bias != nullptr || like.mask != nullptr || !like.options.sequences().empty() ||
      !like.weights_choice.layers().empty()) {
    return absl::InvalidArgumentError(
        "decode: expected no bias, mask, options of single sequences, or weights of layers");
  }
  DecodePlan plan;
  plan.like_ = like;
  plan.like_.input = {};
  plan.open_ = OpenOf(like, tensors);
  plan.open_.set_cache_dtype(options.cache_dtype);
  plan.options_ = options;
  plan.prefill_ = MakeRows(like, tensors, options.prefill, 0, SeedOf(seed, "prefill"));
  const int64_t different_steps = std::clamp<int64_t>(options.steps, 1, kDifferentSteps);
  for (int64_t i = 0; i < different_steps; ++i) {
    plan.steps_.push_back(MakeRows(like, tensors, options.step_tokens,
                                   options.prefill + i * options.step_tokens,
                                   SeedOf(seed, absl::StrCat("step ", i))));
  }
  return plan;
}

StepRequest DecodePlan::StepOf(const TokenRows& rows) const {
  return {.input = InputOf(PointersTo(rows.tensors), rows.ids), .model_output = like_.model_output};
}

Workload DecodePlan::AtOnce() const {
  Workload all;
  std::vector<const Tensor*> tensors;
  for (size_t i = 0; i < prefill_.tensors.size(); ++i) {
    std::vector<const Tensor*> parts = {&prefill_.tensors[i]};
    for (int64_t step = 0; step < options_.steps; ++step) {
      parts.push_back(&steps_[step % num_different_steps()].tensors[i]);
    }
    all.tensors.push_back(std::make_unique<const Tensor>(JoinRows(parts)));
    tensors.push_back(all.tensors.back().get());
  }
  std::vector<int32_t> ids = prefill_.ids;
  for (int64_t i = 0; i < options_.steps; ++i) {
    const TokenRows& step = steps_[i % num_different_steps()];
    ids.insert(ids.end(), step.ids.begin(), step.ids.end());
  }
  all.request = like_;
  all.request.input = InputOf(tensors, ids);
  if (!all.request.options.has_causal()) {
    all.request.options.set_causal(true);
  }
  return all;
}

std::string DecodePlan::Describe() const {
  AttendRequest step = like_;
  step.input = Step(0).input;
  return absl::StrCat(options_.steps, " steps of ", options_.step_tokens, " after prompts of ",
                      options_.prefill, ", each of ", attention::Describe(step),
                      options_.cache_dtype == v1::FP32
                          ? ""
                          : absl::StrCat(", cached in ", v1::DataType_Name(options_.cache_dtype)));
}

}  // namespace attention
