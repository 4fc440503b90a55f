// BERT (Devlin et al. 2018): BertModel, BertForMaskedLM, ...
#include "core/models/families/encoder_frame.h"
#include "core/models/families/families.h"

namespace attention::families {

ModelDescription bert(ModelConfig& config, const Checkpoint&) {
  return BertModel(config, {.prefix = "bert.", .vocab_size = 30522});
}

}  // namespace attention::families
