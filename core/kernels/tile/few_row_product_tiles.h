// Few-row products of bf16 by a matrix unit (AMX).
#pragma once

#ifdef __AVX512BF16__

#include "core/kernels/onednn/matrix_unit_config.h"
#include "core/kernels/tile/few_row_product_avx512.h"
#include "core/kernels/tile/tile_kernels.h"

namespace attention {
namespace {

#define ATTEND_FOR_MATRIX_UNIT __attribute__((target("amx-tile,amx-bf16")))

/// Adds the steps from first_step to end_step to kVecs * 16 columns of c from column `col` on (1 or
/// 4 vectors). Meanwhile it prefetches as much of b, from `ahead_bytes` behind first_step on. The
/// unit's registers 0 to 3 hold c, 4 holds a, and 5 to 7 hold b.
template <int kVecs>
ATTEND_FOR_MATRIX_UNIT inline void MultiplyTiles(const FewRowProduct& p, int64_t first_step,
                                                 int64_t end_step, int64_t col,
                                                 int64_t ahead_bytes) {
  char* c = static_cast<char*>(p.c) + col * 4;
  if (p.accumulate || first_step > 0) {
    _tile_loadd(0, c, p.c_stride);
    if constexpr (kVecs == 4) {
      _tile_loadd(1, c + 64, p.c_stride);
      _tile_loadd(2, c + 128, p.c_stride);
      _tile_loadd(3, c + 192, p.c_stride);
    }
  } else {
    _tile_zero(0);
    if constexpr (kVecs == 4) {
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
  }
  const auto* b = static_cast<const char*>(p.b) + first_step * p.b_stride + col * 4;
  // In the order of memory, as in MultiplyRectangle.
  const char* ahead = static_cast<const char*>(p.b) + first_step * p.b_stride + ahead_bytes +
                      col * 4 * (end_step - first_step);
  for (int64_t step = first_step; step < end_step; step += p.tile_steps) {
    for (int64_t line = 0; line < p.tile_steps * kVecs; ++line) {
      _mm_prefetch(ahead + line * 64, _MM_HINT_T0);
    }
    _tile_loadd(4, static_cast<const char*>(p.a) + step * 4, p.a_stride);
    _tile_loadd(5, b, p.b_stride);
    _tile_dpbf16ps(0, 4, 5);
    if constexpr (kVecs == 4) {
      _tile_loadd(6, b + 64, p.b_stride);
      _tile_dpbf16ps(1, 4, 6);
      _tile_loadd(7, b + 128, p.b_stride);
      _tile_dpbf16ps(2, 4, 7);
      _tile_loadd(5, b + 192, p.b_stride);
      _tile_dpbf16ps(3, 4, 5);
    }
    b += p.tile_steps * p.b_stride;
    ahead += p.tile_steps * kVecs * 64;
  }
  _tile_stored(0, c, p.c_stride);
  if constexpr (kVecs == 4) {
    _tile_stored(1, c + 64, p.c_stride);
    _tile_stored(2, c + 128, p.c_stride);
    _tile_stored(3, c + 192, p.c_stride);
  }
}

/// Computes the product of FewRowProduct::kBf16Matrix. REQUIRES: HasMatrixUnit(). Its registers
/// stay configured.
inline void MultiplyByMatrixUnit(const FewRowProduct& p) {
  MatrixUnitConfig config = {};
  for (int c = 0; c < 4; ++c) {
    SetRegister(c, p.rows, 64, config);
  }
  SetRegister(4, p.rows, p.tile_steps * 4, config);
  for (int b = 5; b < 8; ++b) {
    SetRegister(b, p.tile_steps, 64, config);
  }
  ConfigureMatrixUnit(config);
  // The sums of up to 64 columns stay in the registers for all steps. Wider b is read a tile at a
  // time, in the order of memory.
  const bool is_wide = p.cols > 64;
  const int64_t range_steps = is_wide ? p.tile_steps : p.steps;
  const int64_t ahead_bytes = is_wide ? range_steps * p.b_stride : narrow::kCachedBytes;
  for (int64_t step = 0; step < p.steps; step += range_steps) {
    const int64_t end = step + range_steps;
    int64_t col = 0;
    for (; col + 64 <= p.cols; col += 64) {
      MultiplyTiles<4>(p, step, end, col, ahead_bytes);
    }
    for (; col < p.cols; col += 16) {
      MultiplyTiles<1>(p, step, end, col, ahead_bytes);
    }
  }
}

#undef ATTEND_FOR_MATRIX_UNIT

}  // namespace
}  // namespace attention

#endif
