// Few-row products: products of up to kFewRows rows with a large packed matrix, of which decoding
// consists. Every element has the bits of the brgemm ukernels: one chain of multiply-adds in the
// order of k. The file of each instruction set includes this; NEON has no few-row products.
#pragma once

#include "core/kernels/tile/few_row_product_avx512.h"
#include "core/kernels/tile/few_row_product_matrix_unit.h"
#include "core/kernels/tile/few_row_product_narrow.h"
#include "core/kernels/tile/few_row_product_tiles.h"
#include "core/kernels/tile/tile_kernels.h"

namespace attention {
namespace {

#ifndef __ARM_NEON

inline void MultiplyFewRows(const FewRowProduct& p) {
  switch (p.operands) {
    case FewRowProduct::kF32:
#ifdef __AVX512F__
      return MultiplyInRegisters<F32Chain, narrow::F32Chain>(p);
#else
      return narrow::MultiplyAllRows<narrow::F32Chain>(p);
#endif
    case FewRowProduct::kF32Bf16:
#ifdef __AVX512F__
      return MultiplyWidened(p);
#else
      return narrow::MultiplyAllRows<narrow::WidenedBf16Chain>(p);
#endif
    case FewRowProduct::kBf16:
#ifdef __AVX512BF16__
      return MultiplyInRegisters<Bf16Chain, narrow::Bf16Chain>(p);
#else
      return;  // ComputeDtype never chooses bf16 then
#endif
    case FewRowProduct::kBf16Matrix:
#ifdef __AVX512BF16__
      // Vectors are as fast for two rows, and faster for one.
      return p.rows > 2 && HasMatrixUnit() ? MultiplyByMatrixUnit(p) : MultiplyAsMatrixUnit(p);
#else
      return;  // a processor with a matrix unit has AVX512_BF16
#endif
    case FewRowProduct::kInt8:
#ifdef __AVX512F__
      return MultiplyInRegisters<Int8Chain, narrow::Int8Chain, narrow::SplitInt8Chain>(p);
#else
      return narrow::MultiplyAllRows<narrow::Int8Chain>(p);
#endif
  }
}

constexpr auto kMultiplyFewRows = &MultiplyFewRows;

#else

constexpr void (*kMultiplyFewRows)(const FewRowProduct&) = nullptr;

#endif

}  // namespace
}  // namespace attention
