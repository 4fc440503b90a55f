// One tile of a linear map: up to kRowTile rows by kColumnBlock columns. Internal to
// core/kernels/linear.
#pragma once

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
  const Gemm* next = nullptr;  // null when K is one chain
  const Gemm* last = nullptr;  // a shorter last chain; null when there is none
};

/// The rows of a call as its products read them.
struct PackedLinear::Operand {
  const std::byte* rows = nullptr;
  int64_t row_bytes = 0;          // the stride
  const float* scales = nullptr;  // [rows] of 8-bit rows, or null
};

/// How a call is divided into tiles: kRowTile rows, or the last rows, times a block of columns.
struct PackedLinear::Division {
  Kernels whole;     // for kRowTile rows
  Kernels last;      // for the last rows
  Kernels in_place;  // for kRowTile rows that are written to the result; without rows: for none
  int64_t row_tiles = 0;
  int64_t first_block = 0;
  int64_t blocks = 0;
  bool goes_by_rows = false;  // all blocks of a row tile before the next row tile

  int64_t tiles() const { return row_tiles * blocks; }
  int64_t RowTileOf(int64_t tile) const { return goes_by_rows ? tile / blocks : tile % row_tiles; }
  int64_t BlockOf(int64_t tile) const {
    return first_block + (goes_by_rows ? tile % blocks : tile / row_tiles);
  }
};

/// Rows [first_row, first_row + kernels.rows) of a call, and a block of its columns.
struct PackedLinear::Tile {
  const Kernels& kernels;
  const Kernels* in_place = nullptr;  // those that may write to the result, or null
  int64_t first_row = 0;
  int64_t block = 0;
  Operand input = {};        // from first_row on
  float* widened = nullptr;  // with kernels.widens_before: the f32 weights of the block
  // The part of the next block of weights that the tile prefetches for Widen: each product
  // `prefetch_bytes`, from byte `first_prefetch` of the block on.
  int64_t first_prefetch = 0;
  int64_t prefetch_bytes = 0;
};

}  // namespace attention
