// Rotations of rotary position embedding, ready for the vector code.
#pragma once

#include <cstdint>
#include <vector>

#include "core/kernels/variants.h"

namespace attention {

/// Cosines and sines of positions [first_position, first_position + count). Those of a position do
/// not depend on the range. Positions may be negative.
class RotaryTable {
 public:
  RotaryTable() = default;
  RotaryTable(const Rotary& rotary, int64_t head_dim, int64_t first_position, int64_t count);

  /// Elements that are turned.
  int64_t dim() const { return dim_; }
  /// [count - row, dim]: of each position, cosines of the pairs, then sines. `row` counts from
  /// first_position.
  const float* Row(int64_t row) const { return values_.data() + row * dim_; }

 private:
  int64_t dim_ = 0;
  std::vector<float> values_;
};

}  // namespace attention
