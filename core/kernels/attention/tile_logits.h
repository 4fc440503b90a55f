// From raw scores to logits: softcap, bias and ALiBi, and the sink of a head.
#pragma once

#include <cstdint>

#include "core/kernels/attention/key_tile.h"
#include "core/kernels/attention/tile_state.h"

namespace attention {

/// The logits of a query tile. Borrows the setup.
class TileLogits {
 public:
  explicit TileLogits(const TileSetup& setup) : setup_(setup) {}

  /// Computes the logits of a rectangle from its raw scores, in place. REQUIRES:
  /// setup.shapes_logits; else a logit is a score times a factor, which softmax applies.
  void Shape(const KeyTile& keys, const Rectangle& rectangle) const;
  /// Returns the logit, as an exponent of 2, that the probabilities of a row are relative to. 0
  /// without softmax.
  double ExponentOf(int64_t row, float row_max) const;
  /// Returns the term that the sink of the row's head adds to the row's sum.
  float SinkTerm(int64_t row, float row_max) const;

 private:
  /// Returns the position from which ALiBi's distances are counted: the row's own, or the nearest
  /// that has a key. A distance that all keys share would only cost digits.
  int64_t NearestKey(int64_t row) const;
  /// Returns the number to subtract from the row's logits, because NearestKey is not its position.
  double ShiftOf(int64_t row) const;

  const TileSetup& setup_;
  const FlashSequence& sequence_ = setup_.sequence;
  const AttentionOptions& options_ = sequence_.options;
};

}  // namespace attention
