// Parts that the descriptions of several families share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/models/description.h"
#include "core/models/model_config.h"

namespace attention::families {

/// Describes the linear map of `name`.weight and, with `has_bias`, `name`.bias.
LinearDescription Linear(const std::string& name, int64_t in_features, int64_t out_features,
                         bool has_bias);
/// Describes channels [first, first + out_features) of a linear map of `channels`.
LinearDescription PartOf(LinearDescription whole, int64_t first, int64_t out_features);
/// Describes the layer norm of `name`.weight and `name`.bias.
NormDescription LayerNorm(const std::string& name, int64_t width, float epsilon);

/// Returns the shape in which every head has width d_model / num_heads. REQUIRES: num_heads divides
/// d_model.
MultiHeadAttentionShape EqualHeads(int64_t d_model, int64_t num_heads);

/// Calls `change` for each attention layer of the stack, in order.
void ForEachAttention(StackDescription& stack,
                      absl::FunctionRef<void(int64_t layer, AttentionDescription&)> change);

}  // namespace attention::families
