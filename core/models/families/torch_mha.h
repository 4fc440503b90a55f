// torch.nn.MultiheadAttention's tensors, alone or within a model.
#pragma once

#include <string>

#include "core/models/checkpoint.h"
#include "core/models/description.h"
#include "core/models/model_config.h"

namespace attention::families {

struct TorchMha {
  /// In front of every name.
  std::string name;
  MultiHeadAttentionShape shape;
  bool has_bias = true;
};

/// In one in_proj_weight, or where a width differs in {q,k,v}_proj_weight.
AttentionDescription TorchAttention(const TorchMha& mha);

}  // namespace attention::families
