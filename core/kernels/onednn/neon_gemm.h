// Gemm on ARM64, by our own vector code.
#pragma once

#include <memory>

#include "core/kernels/onednn/gemm.h"

namespace attention {

/// f32 only. REQUIRES: n is a multiple of 16.
std::unique_ptr<Gemm> MakeNeonGemm(const GemmShape& shape);

}  // namespace attention
