#include "core/kernels/attention/head_rows.h"

namespace attention {

void PrepareHeadRows(const HeadPreparation& preparation, const PackSource& source, Dtype dtype,
                     void* target) {
  RowPreparation rows{.source = source, .has_feature_map = preparation.has_feature_map};
  if (preparation.norm.has_value()) {
    rows.has_norm = true;
    rows.norm_weight = preparation.norm->weight;
    rows.norm_epsilon = preparation.norm->epsilon;
  }
  if (preparation.rotary.has_value()) {
    rows.rotary_dim = preparation.table->dim();
    rows.interleaved = preparation.rotary->interleaved;
    rows.rotations = preparation.table->Row(preparation.first_row);
  }
  CurrentTileKernels().prepare_rows(rows, dtype, target);
}

}  // namespace attention
