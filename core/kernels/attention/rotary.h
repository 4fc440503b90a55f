// The rotations of rotary position embedding, as tables for the vector code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "core/kernels/attention/options.h"
#include "core/runtime/thread_pool.h"

namespace attention {

/// Returns the frequency by which Llama 3.1 replaces `frequency`, in radians per position: of
/// `scaling` only the three factors and original_max_positions count.
double ScaleAsLlama3(double frequency, const Rotary& scaling);

/// The cosines and sines of positions [first_position, first_position + count). The values of a
/// position do not depend on the range. Positions may be negative.
class RotaryTable {
 public:
  RotaryTable() = default;
  RotaryTable(const Rotary& rotary, int64_t head_dim, int64_t first_position, int64_t count);

  /// Returns the number of elements that are rotated.
  int64_t dim() const { return dim_; }
  /// Returns the table from row `row` on, [count - row, dim]: for each position the cosines of the
  /// pairs, then the sines. `row` counts from first_position.
  const float* Row(int64_t row) const { return values_.data() + row * dim_; }

 private:
  int64_t dim_ = 0;
  std::vector<float> values_;
};

/// The tables of one computation, for example of all layers of a model over one batch: positions
/// that are asked for again have the same table.
class RotaryTables {
 public:
  /// Positions [first_position, first_position + count) of heads of `head_dim` elements.
  struct Range {
    const Rotary* rotary;
    int64_t head_dim;
    int64_t first_position;
    int64_t count;
  };

  /// Returns the tables of the ranges, which live as long as this object. `pool` makes those that
  /// are missing. One caller at a time. Throws std::bad_alloc, after which the object can only be
  /// destroyed.
  std::vector<const RotaryTable*> Get(std::span<const Range> ranges, ThreadPool& pool);

 private:
  /// The tables of equal rotations.
  struct Kind {
    Rotary rotary;  // with `dim` and `frequencies`, and no position_offset
    std::vector<double> frequencies;
    bool is_given;  // whether the caller gave the frequencies
    /// The tables by their first position and number of positions.
    std::unordered_map<std::pair<int64_t, int64_t>, std::unique_ptr<RotaryTable>,
                       absl::Hash<std::pair<int64_t, int64_t>>>
        tables = {};
  };

  /// REQUIRES: `wanted` has a dim and no position_offset.
  Kind& KindOf(const Rotary& wanted);

  std::list<Kind> kinds_;
  std::unordered_map<size_t, std::vector<Kind*>> kinds_by_hash_;
};

}  // namespace attention
