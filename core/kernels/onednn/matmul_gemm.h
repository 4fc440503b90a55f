// Gemm by oneDNN's matmul primitive, for CPUs without AVX2, which the ukernel needs.
#pragma once

#include <memory>

#include "core/kernels/onednn/gemm_kernel.h"

namespace attention {

/// Makes a kernel for f32.
std::unique_ptr<Gemm> MakeMatmulGemm(const GemmShape& shape);

}  // namespace attention
