// Gemm on ARM64 by vector code of our own.
#pragma once

#include <memory>

#include "core/kernels/onednn/gemm_kernel.h"

namespace attention {

/// Makes a kernel for f32. REQUIRES: n is a multiple of 16.
std::unique_ptr<Gemm> MakeNeonGemm(const GemmShape& shape);

}  // namespace attention
