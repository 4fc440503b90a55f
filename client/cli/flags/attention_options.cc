#include "client/cli/flags/attention_options.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/files/shape_text.h"
#include "client/cli/files/tensor_file.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/seeded.h"

namespace attention {
namespace {

absl::StatusOr<int64_t> NumHeads(AttentionClient& client, const AttendRequest& request) {
  if (const auto* input = std::get_if<QueryKeyValueInput>(&request.input)) {
    const Shape& shape = input->query->shape();
    return shape.size() < 2 ? 0 : shape[shape.size() - 2];
  }
  ASSIGN_OR_RETURN(const v1::Model model, client.GetModel(request.model, request.model_version));
  const int64_t layer = request.layer.value_or(0);
  return layer >= 0 && layer < model.layers_size()
             ? model.layers(static_cast<int>(layer)).num_heads()
             : model.num_heads();
}

/// Calls `set_shared` if `text` has a single list, else `set_own` with the options and the list of
/// each sequence.
template <typename SetShared, typename SetOwn>
absl::Status SetLists(const std::string& text, v1::AttentionOptions& options, SetShared set_shared,
                      SetOwn set_own) {
  if (text.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<std::vector<int64_t>> lists, ParseLists(text));
  if (lists.size() == 1) {
    set_shared(lists[0]);
    return absl::OkStatus();
  }
  if (!options.sequences().empty() && options.sequences_size() != std::ssize(lists)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": expected lists for ", options.sequences_size(),
                     " sequences as the other flags, found ", lists.size()));
  }
  for (int i = 0; i < std::ssize(lists); ++i) {
    v1::SequenceOptions& own =
        i < options.sequences_size() ? *options.mutable_sequences(i) : *options.add_sequences();
    if (!lists[i].empty()) {
      set_own(own, lists[i]);
    }
  }
  return absl::OkStatus();
}

template <typename Message>
void SetNumber(const std::string& field, int64_t value, Message& message) {
  message.GetReflection()->SetInt64(&message, Message::descriptor()->FindFieldByName(field), value);
}

absl::Status AddNorm(const std::string& source, uint64_t seed, std::optional<double> epsilon,
                     v1::RmsNorm& norm) {
  if (epsilon.has_value()) {
    norm.set_epsilon(*epsilon);
  }
  if (source != "ones") {
    ASSIGN_OR_RETURN(const Tensor tensor, LoadTensor(source, seed));
    const Tensor weights = tensor.ConvertedTo(Dtype::kF32);
    norm.mutable_weight()->Assign(weights.as<float>(),
                                  weights.as<float>() + weights.num_elements());
  }
  return absl::OkStatus();
}

absl::Status AddRowOptions(const AttentionFlags& flags, uint64_t seed,
                           v1::AttentionOptions& options) {
  if (!flags.rotary_scaling.empty()) {
    ASSIGN_OR_RETURN(const v1::Rotary scaling, ParseRotaryScaling(flags.rotary_scaling));
    options.mutable_rotary()->MergeFrom(scaling);
  }
  if (!flags.query_norm.empty()) {
    RETURN_IF_ERROR(AddNorm(flags.query_norm, SeedOf(seed, "query_norm"), flags.norm_epsilon,
                            *options.mutable_query_norm()));
  }
  if (!flags.key_norm.empty()) {
    RETURN_IF_ERROR(AddNorm(flags.key_norm, SeedOf(seed, "key_norm"), flags.norm_epsilon,
                            *options.mutable_key_norm()));
  }
  return absl::OkStatus();
}

absl::Status AddLogits(const AttentionFlags& flags, AttentionClient& client,
                       const AttendRequest& request, v1::AttentionOptions& options) {
  if (flags.alibi == kStandardAlibi) {
    ASSIGN_OR_RETURN(const int64_t num_heads, NumHeads(client, request));
    const std::vector<float> slopes = StandardAlibiSlopes(num_heads);
    options.mutable_alibi_slopes()->Assign(slopes.begin(), slopes.end());
  } else if (!flags.alibi.empty()) {
    ASSIGN_OR_RETURN(const std::vector<double> slopes, ParseNumbers(flags.alibi));
    options.mutable_alibi_slopes()->Assign(slopes.begin(), slopes.end());
  }
  if (!flags.sinks.empty()) {
    ASSIGN_OR_RETURN(const std::vector<double> sinks, ParseNumbers(flags.sinks));
    options.mutable_sinks()->Assign(sinks.begin(), sinks.end());
  }
  return absl::OkStatus();
}

absl::Status AddScoreTensors(const AttentionFlags& flags, uint64_t seed, Workload& workload) {
  if (!flags.bias.empty()) {
    ASSIGN_OR_RETURN(const Tensor bias, LoadTensor(flags.bias, SeedOf(seed, "bias")));
    workload.tensors.push_back(std::make_unique<const Tensor>(bias.ConvertedTo(Dtype::kF32)));
    workload.request.bias = workload.tensors.back().get();
  }
  if (!flags.mask.empty()) {
    ASSIGN_OR_RETURN(const Tensor tensor, LoadTensor(flags.mask, SeedOf(seed, "mask")));
    const Tensor values = tensor.ConvertedTo(Dtype::kF32);
    MaskTensor mask{values.shape()};
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      mask.values.push_back(values.as<float>()[i] != 0 ? 1 : 0);
    }
    workload.mask = std::make_unique<const MaskTensor>(std::move(mask));
    workload.request.mask = workload.mask.get();
  }
  return absl::OkStatus();
}

absl::Status AddVisibility(const AttentionFlags& flags, v1::AttentionOptions& options) {
  using List = std::vector<int64_t>;
  using Own = v1::SequenceOptions;
  RETURN_IF_ERROR(SetLists(
      flags.causal_each, options, [&](const List& list) { options.set_causal(list[0] != 0); },
      [](Own& own, const List& list) { own.set_causal(list[0] != 0); }));
  for (const auto& [field, text] : flags.visibility_numbers) {
    RETURN_IF_ERROR(SetLists(
        text, options, [&](const List& list) { SetNumber(field, list[0], options); },
        [&](Own& own, const List& list) { SetNumber(field, list[0], own); }));
  }
  return SetLists(
      flags.global_tokens, options,
      [&](const List& list) { options.mutable_global_tokens()->Assign(list.begin(), list.end()); },
      [](Own& own, const List& list) {
        own.mutable_global_tokens()->Assign(list.begin(), list.end());
      });
}

}  // namespace

std::vector<float> StandardAlibiSlopes(int64_t num_heads) {
  std::vector<float> slopes;
  for (int64_t i = 1; i <= num_heads; ++i) {
    slopes.push_back(static_cast<float>(
        std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(num_heads))));
  }
  return slopes;
}

absl::Status AddAttention(const AttentionFlags& flags, uint64_t seed, AttentionClient& client,
                          Workload& workload) {
  v1::AttentionOptions options = flags.options;
  RETURN_IF_ERROR(AddVisibility(flags, options));
  RETURN_IF_ERROR(AddLogits(flags, client, workload.request, options));
  RETURN_IF_ERROR(AddRowOptions(flags, seed, options));
  workload.request.options = std::move(options);
  return AddScoreTensors(flags, seed, workload);
}

}  // namespace attention
