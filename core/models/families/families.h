// The families of checkpoints. core/models/README.md says how to add one.
#pragma once

#include <string>
#include <vector>

#include "core/models/checkpoint.h"
#include "core/models/description.h"
#include "core/models/model_config.h"

/// The families that have a file.
#define ATTENTION_FAMILIES(FAMILY) \
  FAMILY(bert)                     \
  FAMILY(camembert)                \
  FAMILY(causal_self_attention)    \
  FAMILY(distilbert)               \
  FAMILY(gemma2)                   \
  FAMILY(gpt2)                     \
  FAMILY(gpt_neox)                 \
  FAMILY(llama)                    \
  FAMILY(mistral)                  \
  FAMILY(phi3)                     \
  FAMILY(qwen2)                    \
  FAMILY(qwen3)                    \
  FAMILY(roberta)                  \
  FAMILY(self_attention)           \
  FAMILY(torch_mha)                \
  FAMILY(torch_transformer)

namespace attention {

/// A function that describes a model from its config.json. Errors are kept in the config's status.
/// The checkpoint is used only where its tensors, not the config, distinguish variants.
using DescribeFamily = ModelDescription (*)(ModelConfig& config, const Checkpoint& checkpoint);

/// Returns the function of a `model_type`; null when it is not known.
DescribeFamily FindFamily(const std::string& model_type);
/// Returns every `model_type`, in order.
std::vector<std::string> FamilyNames();

namespace families {
#define ATTENTION_DECLARE_FAMILY(name) \
  ModelDescription name(ModelConfig& config, const Checkpoint& checkpoint);
ATTENTION_FAMILIES(ATTENTION_DECLARE_FAMILY)
#undef ATTENTION_DECLARE_FAMILY
}  // namespace families

}  // namespace attention
