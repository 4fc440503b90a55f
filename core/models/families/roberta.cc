// RoBERTa (Liu et al. 2019): BERT whose positions are counted from padding_idx + 1, over the tokens
// that are no padding.
#include "core/models/families/encoder_frame.h"
#include "core/models/families/families.h"

namespace attention::families {

ModelDescription roberta(ModelConfig& config, const Checkpoint&) {
  return BertModel(config, {.prefix = "roberta.", .vocab_size = 50265, .padding_id = 1});
}

}  // namespace attention::families
