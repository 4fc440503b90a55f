// The two products of a query tile, query . key and probabilities . values, for every similarity
// and storage.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/kernels/attention/key_tile.h"
#include "core/kernels/attention/tile_state.h"

namespace attention {

/// Computes the products of one query tile with its key tiles. Columns begin at a multiple of
/// kKeyBlock and end at one of TileSetup::key_step.
class TileProducts {
 public:
  /// Borrows both. REQUIRES: ReadQuery has written the query rows.
  TileProducts(const TileSetup& setup, const TileBuffers& buffers)
      : setup_(setup), plan_(setup.plan), buffers_(buffers) {}

  /// Converts the first `count` keys and values of the key tile, except those that are converted
  /// already, with KeyOperands::kExpanded. The products below then read them.
  void ExpandKeyValues(const KeyTile& keys, int64_t count) const;

  /// Writes the raw scores of a rectangle: query . key, or distances.
  void Score(const KeyTile& keys, const Rectangle& rectangle) const;

  /// Computes accumulator (+)= probabilities . values over the columns of a rectangle. Without
  /// `accumulate` the first chain overwrites.
  void AddValues(const KeyTile& keys, const Rectangle& rectangle, bool accumulate) const;

  /// Does the same, but takes no value that is hidden from a row, since 0 * NaN must not reach it.
  /// The bits are the same when all values are finite.
  void AddVisibleValues(const KeyTile& keys, const Rectangle& rectangle, bool accumulate) const;

 private:
  struct FewRowTypes;
  struct Chain;
  struct NonFiniteValues;
  template <typename T>
  struct Elements;

  const std::byte* Keys(int64_t key) const;
  const std::byte* Values(int64_t key) const;
  int64_t ValueColumns(int64_t key) const;
  const std::byte* QueryRow(int64_t row) const {
    const int64_t element_bytes = setup_.int8() ? 1 : setup_.element_bytes;
    return static_cast<std::byte*>(buffers_.query) + row * plan_.depth() * element_bytes;
  }
  float* AccumulatorRow(int64_t row) const {
    return buffers_.accumulator + row * plan_.value_width();
  }

  FewRowTypes TypesOfFewRows() const;
  bool IsShort() const;
  void PrefetchScales(int64_t key) const;
  void ScoreFewRows(const KeyTile& keys, const Rectangle& rectangle, int64_t col) const;
  void DotProducts(const KeyTile& keys, const Rectangle& rectangle) const;
  void Distances(const KeyTile& keys, const Rectangle& rectangle) const;

  void AddChain(const Chain& chain, void* sums, bool accumulate) const;
  void AddChains(const KeyTile& keys, const Rectangle& rectangle, bool is_copied,
                 bool accumulate) const;
  void AddInt8Values(const KeyTile& keys, const Rectangle& rectangle, bool accumulate) const;
  void CopyPanels(int64_t key, std::byte* target) const;
  void CopyValues(int64_t first_key, int64_t col) const;
  template <typename F>
  auto WithElements(int64_t col, int64_t first, const F& f) const;
  void ClearNonFinite(int64_t col, NonFiniteValues& values) const;
  void FindVisible(const KeyTile& keys, int64_t row, const Rectangle& rectangle,
                   NonFiniteValues& values) const;
  void AddNonFinite(const Rectangle& rectangle, int64_t first, const NonFiniteValues& values) const;

  const TileSetup& setup_;
  const AttentionPlan& plan_;
  const TileBuffers& buffers_;
};

}  // namespace attention
