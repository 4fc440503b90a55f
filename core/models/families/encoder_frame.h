// The parts that the families derived from BERT (Devlin et al. 2018) share: blocks of attention and
// feed-forward, each followed by a norm of the sum.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/models/description.h"
#include "core/models/model_config.h"

namespace attention::families {

/// The names of tensors within a block, without ".weight" and ".bias".
struct EncoderNames {
  /// The beginning of the names: block N's is `blocks` N ".".
  std::string blocks;
  std::string query, key, value, output, attention_norm;
  std::string up, down, output_norm;
};

struct EncoderExtents {
  int64_t d_model = 0;
  int64_t num_layers = 0;
  /// The number of heads. It divides d_model.
  int64_t num_heads = 0;
  int64_t d_hidden = 0;
  float epsilon = 0;
  Activation activation = Activation::kGelu;
  bool causal = false;
};

StackDescription EncoderStack(const EncoderNames& names, const EncoderExtents& extents);

/// The defaults of a BERT config. RoBERTa is a BERT with other defaults.
struct BertDefaults {
  std::string prefix;
  int64_t vocab_size = 0;
  /// A padding_id means that positions are counted by RoBERTa's rule.
  std::optional<int64_t> padding_id = {};
};
ModelDescription BertModel(ModelConfig& config, const BertDefaults& defaults);

}  // namespace attention::families
