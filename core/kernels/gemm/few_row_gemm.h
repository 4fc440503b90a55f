// Gemm by few-row products: for up to 8 rows of f32, or of bf16 and 8 bits where B comes from
// memory (AVX-512, not Intel's); and where oneDNN has no ukernel: 8-bit integers without VNNI,
// whose sums of two would saturate, f32 below AVX2, and f32 times bf16. Internal to
// core/kernels/gemm.
#pragma once

#include <memory>

#include "core/kernels/onednn/gemm_kernel.h"

namespace attention {

/// Makes a kernel for `shape`. REQUIRES: bf16 times bf16 only with AVX512_BF16; n is a multiple of
/// 16 up to 512; with shape.int8 k is a multiple of 4 up to 1024.
std::unique_ptr<Gemm> MakeFewRowGemm(const GemmShape& shape);

}  // namespace attention
