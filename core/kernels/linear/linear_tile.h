// One tile of a linear map: up to kRowTile rows by kColumnBlock columns. Internal to
// core/kernels/linear.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/kernels/gemm/gemm.h"
#include "core/kernels/linear/linear.h"

namespace attention {

inline constexpr int64_t kRowTile = 64;

/// The products of one tile height: the first chain of K overwrites, later ones accumulate.
struct PackedLinear::Kernels {
  int64_t rows = 0;
  int64_t depth = 0;
  int64_t chain = 0;
  int64_t columns = kColumnBlock;  // of one product
  bool widens_before = false;      // bf16 weights become f32 panels before the products
  const Gemm* first = nullptr;
  const Gemm* next = nullptr;  // null when no whole chain follows the first
  const Gemm* last = nullptr;  // a shorter last chain; null when there is none
};

/// The rows of a call as its products read them.
struct PackedLinear::Operand {
  const std::byte* rows = nullptr;
  int64_t row_bytes = 0;          // the stride
  const float* scales = nullptr;  // [rows] of 8-bit rows, or null
};

/// How a call is divided into tiles: kRowTile rows, or the last rows, times a block of columns. A
/// stripe is some consecutive row tiles. The tiles are in the order of stripes, then of blocks.
struct PackedLinear::Division {
  Kernels whole;     // for kRowTile rows
  Kernels last;      // for the last rows
  Kernels in_place;  // for kRowTile rows that are written to the result; without rows: for none
  int64_t row_tiles = 0;
  int64_t stripe_tiles = 0;  // the row tiles of a stripe; the last one may have fewer
  int64_t first_block = 0;
  int64_t blocks = 0;

  /// The coordinates of a tile.
  struct Coordinates {
    int64_t first_of_stripe = 0;  // the first row tile of its stripe
    int64_t stripe_tiles = 0;     // the number of row tiles of its stripe
    int64_t row_tile = 0;
    int64_t block = 0;
  };

  int64_t tiles() const { return row_tiles * blocks; }
  Coordinates CoordinatesOf(int64_t tile) const {
    const int64_t first = tile / (stripe_tiles * blocks) * stripe_tiles;
    const int64_t count = std::min(stripe_tiles, row_tiles - first);
    const int64_t in_stripe = tile - first * blocks;
    return {first, count, first + in_stripe % count, first_block + in_stripe / count};
  }
};

/// Rows [first_row, first_row + kernels.rows) of a call, and a block of its columns.
struct PackedLinear::Tile {
  const Kernels& kernels;
  const Kernels* in_place = nullptr;  // those that may write to the result, or null
  int64_t first_row = 0;
  int64_t block = 0;
  bool is_first_of_stripe = false;  // the first tile of its stripe and block
  Operand input = {};               // from first_row on
  float* widened = nullptr;         // with kernels.widens_before: the f32 weights of the block
  // The part of the next block of weights that the tile prefetches for Widen: each product
  // `prefetch_bytes`, from byte `first_prefetch` of the block on.
  int64_t first_prefetch = 0;
  int64_t prefetch_bytes = 0;
};

}  // namespace attention
