// Describes the tensors of torch.nn.MultiheadAttention, alone or within a model.
#pragma once

#include <string>

#include "core/models/checkpoint.h"
#include "core/models/description.h"
#include "core/models/model_config.h"

namespace attention::families {

struct TorchMha {
  /// The beginning of every tensor's name.
  std::string name;
  MultiHeadAttentionShape shape;
  bool has_bias = true;
};

/// Describes the layer. Query, key and value are one in_proj_weight; if a width differs they are
/// {q,k,v}_proj_weight.
AttentionDescription TorchAttention(const TorchMha& mha);

}  // namespace attention::families
