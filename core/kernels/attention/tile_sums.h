// The softmax sums of a query tile over some of its keys, and how the sums of two sets of keys are
// added.
#pragma once

#include <cstdint>

namespace attention {

/// Sums over some keys of a query tile, for each of its rows: enough to continue with other keys.
/// Borrows its memory.
struct TileSums {
  /// Returns the number of floats that the sums of `rows` rows take.
  static int64_t Floats(int64_t rows, int64_t value_width) { return rows * (value_width + 2); }
  /// Returns sums in `memory`, which has Floats(rows, value_width) floats.
  static TileSums In(float* memory, int64_t rows, int64_t value_width) {
    return {memory, memory + rows * value_width, memory + rows * (value_width + 1)};
  }

  float* values;   // [rows, value_width]: values weighted by the probabilities; in a row whose
                   // row_sum is 0: undefined with softmax, otherwise 0 or not finite
  float* row_max;  // [rows]: the maximum of the scores, to which probabilities are relative
  float* row_sum;  // [rows]: the sum of the probabilities; 0: the row attends to none of the keys
};

/// Begins sums over no keys.
void ClearSums(int64_t rows, int64_t value_width, const TileSums& sums);

/// Adds the sums of later keys. The result does not depend on how many rows the tile has, and a row
/// that attends to none of the later keys keeps its bits. `scale_log2e`: see TileSetup.
void AddSoftmaxSums(const TileSums& later, int64_t rows, int64_t value_width, float scale_log2e,
                    const TileSums& sums);

/// Does the same for similarities whose probabilities are absolute: their row maxima are -infinity.
/// Values that are not finite are kept although their probability is 0.
void AddWeightSums(const TileSums& later, int64_t rows, int64_t value_width, const TileSums& sums);

void CopySums(const TileSums& from, int64_t rows, int64_t value_width, const TileSums& to);

}  // namespace attention
