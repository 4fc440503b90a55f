// CamemBERT (Martin et al. 2020) and XLM-RoBERTa (Conneau et al. 2020): RoBERTa with another
// vocabulary where the config.json does not give its size.
#include "core/models/families/encoder_frame.h"
#include "core/models/families/families.h"

namespace attention::families {

ModelDescription camembert(ModelConfig& config, const Checkpoint&) {
  return BertModel(config, {.prefix = "roberta.", .vocab_size = 30522, .padding_id = 1});
}

}  // namespace attention::families
