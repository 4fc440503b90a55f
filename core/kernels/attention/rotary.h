// The rotations of rotary position embedding, as tables for the vector code.
#pragma once

#include <cstdint>
#include <vector>

#include "core/kernels/attention/options.h"

namespace attention {

/// The frequency by which Llama 3.1 replaces `frequency`, in radians per position: of `scaling`
/// only the three factors and original_max_positions count.
double ScaleAsLlama3(double frequency, const Rotary& scaling);

/// The cosines and sines of positions [first_position, first_position + count). The values of a
/// position do not depend on the range. Positions may be negative.
class RotaryTable {
 public:
  RotaryTable() = default;
  RotaryTable(const Rotary& rotary, int64_t head_dim, int64_t first_position, int64_t count);

  /// The number of elements that are rotated.
  int64_t dim() const { return dim_; }
  /// The table from row `row` on, [count - row, dim]: for each position the cosines of the pairs,
  /// then the sines. `row` counts from first_position.
  const float* Row(int64_t row) const { return values_.data() + row * dim_; }

 private:
  int64_t dim_ = 0;
  std::vector<float> values_;
};

}  // namespace attention
