// The preparation of query and key rows before their product: norm, rotation, feature map.
#pragma once

#include <cstdint>
#include <optional>

#include "core/kernels/attention/options.h"
#include "core/kernels/attention/rotary.h"
#include "core/kernels/tile/tile_kernels.h"

namespace attention {

/// The preparation of rows of one head. Borrows everything.
struct HeadPreparation {
  const std::optional<RmsNorm>& norm;
  const std::optional<Rotary>& rotary;
  const RotaryTable* table = nullptr;  // the rotations, if `rotary` is set
  int64_t first_row = 0;               // the row of the table that belongs to row 0 of the source
  bool has_feature_map = false;

  bool does_something() const { return norm.has_value() || rotary.has_value() || has_feature_map; }
};

/// Writes the prepared rows to `target`, dense [source.rows, source.cols] of `dtype`.
void PrepareHeadRows(const HeadPreparation& preparation, const PackSource& source, Dtype dtype,
                     void* target);

}  // namespace attention
