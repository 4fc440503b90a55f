// Gemm on oneDNN's brgemm ukernel (AVX2 and up).
#pragma once

#include <memory>

#include "core/kernels/onednn/gemm_kernel.h"

namespace attention {

std::unique_ptr<Gemm> MakeUkernelGemm(const GemmShape& shape);

/// Frees the registers of this thread's matrix unit, if a kernel configured it.
void ReleaseMatrixUnit();

}  // namespace attention
