#include "core/models/tensor_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

using Layout = LinearDescription::Layout;

bool IsContiguous(const LinearDescription& linear) {
  return linear.run == 0 || linear.run == linear.run_step || linear.run >= linear.out_features;
}

/// Returns the channel of the tensor that is output channel `channel` of the map.
int64_t SourceChannel(const LinearDescription& linear, int64_t channel) {
  return linear.first_channel +
         (linear.run == 0 ? channel
                          : channel / linear.run * linear.run_step + channel % linear.run);
}

/// Copies the channel runs of a map, one after the other.
std::vector<float> GatherChannels(const LinearDescription& linear, const StoredTensor& tensor) {
  const int64_t depth = linear.in_features;
  std::vector<float> gathered(linear.out_features * depth);
  for (int64_t c = 0; c < linear.out_features; ++c) {
    Convert(tensor.dtype, ElementAt(tensor.data, tensor.dtype, SourceChannel(linear, c) * depth),
            Dtype::kF32, &gathered[c * depth], depth);
  }
  return gathered;
}

/// Makes the block-diagonal matrix by which each head maps its own part of the input.
std::vector<float> RepeatForHeads(const LinearDescription& linear, const StoredTensor& tensor) {
  const int64_t width = tensor.shape[0];
  std::vector<float> repeated(linear.out_features * linear.in_features);
  for (int64_t c = 0; c < linear.out_features; ++c) {
    const int64_t head = c / width;
    Convert(tensor.dtype, ElementAt(tensor.data, tensor.dtype, c % width * width), Dtype::kF32,
            &repeated[c * linear.in_features + head * width], width);
  }
  return repeated;
}

absl::StatusOr<std::vector<float>> TakeBias(Checkpoint& checkpoint, const LinearDescription& linear,
                                            int64_t channels) {
  if (linear.bias.empty() || (linear.is_bias_optional && !checkpoint.Has(linear.bias))) {
    return std::vector<float>();
  }
  ASSIGN_OR_RETURN(const std::vector<float> all, TakeValues(checkpoint, linear.bias, {channels}));
  std::vector<float> bias(linear.out_features);
  for (int64_t c = 0; c < linear.out_features; ++c) {
    bias[c] = all[SourceChannel(linear, c)];
  }
  return bias;
}

}  // namespace

absl::StatusOr<StoredLinear> TakeLinear(Checkpoint& checkpoint, const LinearDescription& linear) {
  const int64_t channels = linear.channels > 0 ? linear.channels : linear.out_features;
  StoredLinear read;
  if (linear.layout == Layout::kSharedByHeads) {
    ASSIGN_OR_RETURN(const StoredTensor tensor,
                     checkpoint.Take(linear.weight, {linear.run, linear.run}));
    read.copied_weights = RepeatForHeads(linear, tensor);
    read.weights = {.data = read.copied_weights.data()};
    return read;
  }
  const bool is_transposed = linear.layout == Layout::kColumns;
  const int64_t rows = linear.has_own_weight ? linear.out_features : channels;
  const int64_t first = linear.has_own_weight ? 0 : linear.first_channel;
  const Shape shape =
      is_transposed ? Shape{linear.in_features, rows} : Shape{rows, linear.in_features};
  ASSIGN_OR_RETURN(const StoredTensor tensor, checkpoint.Take(linear.weight, shape));
  if (IsContiguous(linear)) {
    const int64_t element = is_transposed ? first : first * linear.in_features;
    read.weights = {.data = ElementAt(tensor.data, tensor.dtype, element),
                    .dtype = tensor.dtype,
                    .is_transposed = is_transposed,
                    .stride = is_transposed ? rows : linear.in_features};
  } else {
    read.copied_weights = GatherChannels(linear, tensor);
    read.weights = {.data = read.copied_weights.data()};
  }
  ASSIGN_OR_RETURN(read.bias, TakeBias(checkpoint, linear, channels));
  read.weights.bias = read.bias.empty() ? nullptr : read.bias.data();
  return read;
}

absl::StatusOr<Norm> TakeNorm(Checkpoint& checkpoint, const NormDescription& norm) {
  // Checkpoints that were converted from TensorFlow call weight and bias gamma and beta.
  const auto name_of = [&](const std::string& name, const char* now, const char* once) {
    const std::string old_name = absl::EndsWith(name, now)
                                     ? name.substr(0, name.size() - std::string(now).size()) + once
                                     : name;
    return !checkpoint.Has(name) && checkpoint.Has(old_name) ? old_name : name;
  };
  Norm result{.is_rms = norm.is_rms, .epsilon = norm.epsilon, .weight = {}};
  ASSIGN_OR_RETURN(result.weight,
                   TakeValues(checkpoint, name_of(norm.weight, "weight", "gamma"), {norm.width}));
  for (float& weight : result.weight) {
    weight += norm.weight_offset;
  }
  if (!norm.bias.empty()) {
    ASSIGN_OR_RETURN(result.bias,
                     TakeValues(checkpoint, name_of(norm.bias, "bias", "beta"), {norm.width}));
  }
  return result;
}

absl::StatusOr<std::optional<Norm>> TakeNorm(Checkpoint& checkpoint,
                                             const std::optional<NormDescription>& norm) {
  if (!norm.has_value()) {
    return std::optional<Norm>();
  }
  ASSIGN_OR_RETURN(Norm result, TakeNorm(checkpoint, *norm));
  return std::optional<Norm>(std::move(result));
}

absl::StatusOr<std::vector<float>> TakeValues(Checkpoint& checkpoint, const std::string& name,
                                              const Shape& shape) {
  ASSIGN_OR_RETURN(const StoredTensor tensor, checkpoint.Take(name, shape));
  std::vector<float> values(NumElements(tensor.shape));
  Convert(tensor.dtype, tensor.data, Dtype::kF32, values.data(), std::ssize(values));
  return values;
}

}  // namespace attention
