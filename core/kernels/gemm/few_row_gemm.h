// Gemm of 8-bit integers by few-row products, for CPUs without VNNI, where oneDNN's ukernel would
// saturate. Internal to core/kernels/gemm.
#pragma once

#include <memory>

#include "core/kernels/onednn/gemm_kernel.h"

namespace attention {

/// Makes a kernel. REQUIRES: shape.int8, k is a multiple of 4, and MultipliesInt8().
std::unique_ptr<Gemm> MakeFewRowGemm(const GemmShape& shape);

}  // namespace attention
