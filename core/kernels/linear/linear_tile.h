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

/// Rows [first_row, first_row + kernels.rows) of a call.
struct PackedLinear::Tile {
  const Kernels& kernels;
  const Kernels* in_place = nullptr;  // those that may write to the result, or null
  int64_t first_row = 0;
  const void* rows = nullptr;  // of the operand type
  const float* scales = nullptr;
  float* widened = nullptr;  // with kernels.widens_before: the f32 weights of the block
  // The part of the next block of weights that the tile prefetches for Widen: each product
  // `prefetch_bytes`, from byte `first_prefetch` of the block on.
  int64_t first_prefetch = 0;
  int64_t prefetch_bytes = 0;
};

}  // namespace attention
